"""B91, B92 and features 116-121: exchange types that RabbitMQ has beside the classic four.

x-modulus-hash and x-local-random are in RabbitMQ 4.3 itself; the others are its plugins rabbitmq_consistent_hash_exchange,
rabbitmq_random_exchange, rabbitmq_recent_history_exchange and rabbitmq_jms_topic_exchange: without them their tests are
skipped.
"""

import collections

import pytest

import client
from erlang_hash import jump, phash2
from wire import T

REFUSED = "PRECONDITION_FAILED - "


def declared(ch, kind, arguments=None):
    """A fresh exchange of that type, or a skipped test where there is no such type."""
    try:
        return ch.exchange(kind, arguments=arguments or {})
    except client.Closed as closed:
        if "exchange type" in closed.text:
            pytest.skip(closed.text)
        raise


def queues(ch, count):
    """Queues in the order of their names."""
    stem = client.fresh("q")
    return [ch.queue(f"{stem}-{n:02}") for n in range(count)]


def spread(ch, exchange, names, messages):
    """Publishes (key, properties) pairs; {queue: [indices of messages in order]}."""
    pub = ch.connection.channel()
    pub.call("confirm.select")
    for index, (key, props) in enumerate(messages):
        assert pub.confirmed(exchange, key, str(index).encode(), **props)
    return {name: [int(body) for body in ch.drain(name)] for name in names}


def taker(spread_, index):
    """The queue that got the message."""
    return [name for name, indices in spread_.items() if index in indices]


# ------------------------------------------------------------------------------------------ x-modulus-hash


def test_b091_modulus_hash_takes_the_queue_that_erlangs_hash_says(ch):
    exchange = declared(ch, "x-modulus-hash")
    names = queues(ch, 7)
    for name in reversed(names):
        ch.bind(name, exchange, "whatever")
    keys = ["", "k", "a.b.c", "ä", "0123456789ab", "0123456789abc", "x" * 255] + [f"key-{n}" for n in range(60)]
    got = spread(ch, exchange, names, [(key, {}) for key in keys])
    for index, key in enumerate(keys):
        assert taker(got, index) == [names[phash2([key.encode()]) % 7]], key


def test_b091_modulus_hash_hashes_carbon_copies_along(ch):
    exchange = declared(ch, "x-modulus-hash")
    names = queues(ch, 5)
    for name in names:
        ch.bind(name, exchange)
    messages = [("k", {"headers": {"CC": [f"cc{n}", "other"], "BCC": ["hidden"]}}) for n in range(20)]
    got = spread(ch, exchange, names, messages)
    for n in range(20):
        expected = phash2([b"k", f"cc{n}".encode(), b"other", b"hidden"]) % 5
        assert taker(got, n) == [names[expected]]


def test_b091_modulus_hash_counts_bindings_not_queues(ch):
    exchange = declared(ch, "x-modulus-hash")
    names = queues(ch, 2)
    for key in ("a", "b", "c"):
        ch.bind(names[0], exchange, key)
    ch.bind(names[1], exchange)
    got = spread(ch, exchange, names, [(str(n), {}) for n in range(40)])
    for n in range(40):
        assert taker(got, n) == [names[0] if phash2([str(n).encode()]) % 4 < 3 else names[1]]


def test_b091_modulus_hash_sorts_exchanges_before_queues(ch):
    exchange, sink = declared(ch, "x-modulus-hash"), ch.exchange("fanout", name=client.fresh("zzz"))
    names = queues(ch, 2)
    behind = ch.queue()
    ch.bind(behind, sink)
    for name in names:
        ch.bind(name, exchange)
    ch.call("exchange.bind", source=exchange, destination=sink)
    got = spread(ch, exchange, [behind, *names], [(str(n), {}) for n in range(30)])
    for n in range(30):
        assert taker(got, n) == [[behind, *names][phash2([str(n).encode()]) % 3]]


def test_b091_modulus_hash_without_bindings_routes_nowhere(ch):
    exchange = declared(ch, "x-modulus-hash")
    ch.call("confirm.select")
    ch.publish(exchange, "k", mandatory=True)
    assert ch.next("basic.return").reply_code == 312


# ------------------------------------------------------------------------------------------ x-consistent-hash


def ring_of(bindings):
    """Buckets of bindings (queue, weight) in the order in which they were made."""
    return [name for name, weight in bindings for _ in range(weight)]


def bound_ring(ch, exchange, weights):
    bindings = list(zip(queues(ch, len(weights)), weights))
    for name, weight in bindings:
        ch.bind(name, exchange, str(weight))
    return [name for name, _ in bindings], ring_of(bindings)


def test_b092_consistent_hash_takes_the_bucket_that_jump_hashing_says(ch):
    exchange = declared(ch, "x-consistent-hash")
    names, ring = bound_ring(ch, exchange, [1, 3, 2])
    keys = ["", "k"] + [f"key-{n}" for n in range(80)]
    got = spread(ch, exchange, names, [(key, {}) for key in keys])
    for index, key in enumerate(keys):
        assert taker(got, index) == [ring[jump(phash2(key.encode()), len(ring))]], key


def test_b092_consistent_hash_moves_buckets_down_when_a_binding_goes(ch):
    exchange = declared(ch, "x-consistent-hash")
    names, ring = bound_ring(ch, exchange, [2, 3, 2, 1])
    ch.call("queue.unbind", queue=names[1], exchange=exchange, routing_key="3")
    ring = [name for name in ring if name != names[1]]
    got = spread(ch, exchange, names, [(f"key-{n}", {}) for n in range(50)])
    for n in range(50):
        assert taker(got, n) == [ring[jump(phash2(f"key-{n}".encode()), len(ring))]]


def test_b092_consistent_hash_counts_the_first_binding_of_a_queue(ch):
    exchange = declared(ch, "x-consistent-hash")
    names, ring = bound_ring(ch, exchange, [1, 1])
    ch.bind(names[0], exchange, "100")
    got = spread(ch, exchange, names, [(f"key-{n}", {}) for n in range(50)])
    for n in range(50):
        assert taker(got, n) == [ring[jump(phash2(f"key-{n}".encode()), 2)]]


@pytest.mark.parametrize(
    "value, key",
    [
        (None, 45914356),
        ("text", phash2(b"text")),
        (T("l", 7), 7),
        (T("I", -5), -5),
        (T("d", 1.5), 10380315),
        (True, 506293),
        (False, 7111573),
        (T("T", 1700000000), 1700000000000),
    ],
    ids=["absent", "text", "long", "negative", "double", "true", "false", "timestamp"],
)
def test_b092_consistent_hash_of_a_header(ch, value, key):
    exchange = declared(ch, "x-consistent-hash", {"hash-header": "x-h"})
    names, ring = bound_ring(ch, exchange, [3, 5, 4, 7])
    headers = {"other": "1"} if value is None else {"x-h": value}
    got = spread(ch, exchange, names, [(f"ignored{n}", {"headers": headers}) for n in range(3)])
    assert [taker(got, n) for n in range(3)] == [[ring[jump(key, len(ring))]]] * 3


@pytest.mark.parametrize("name, value, key", [
    ("message_id", "m-1", phash2(b"m-1")),
    ("correlation_id", "c-1", phash2(b"c-1")),
    ("timestamp", 1700000000, phash2(b"1700000000")),
    ("timestamp", None, 45914356),
], ids=["message_id", "correlation_id", "timestamp", "absent"])
def test_b092_consistent_hash_of_a_property(ch, name, value, key):
    exchange = declared(ch, "x-consistent-hash", {"hash-property": name})
    names, ring = bound_ring(ch, exchange, [3, 5, 4, 7])
    props = {} if value is None else {name: value}
    got = spread(ch, exchange, names, [(f"ignored{n}", props) for n in range(3)])
    assert [taker(got, n) for n in range(3)] == [[ring[jump(key, len(ring))]]] * 3


@pytest.mark.parametrize("key, text", [
    ("", "The binding key must be an integer: <<>>"),
    ("abc", 'The binding key must be an integer: <<"abc">>'),
    ("1.5", 'The binding key must be an integer: <<"1.5">>'),
    ("0", "The binding key must be greater than 0"),
    ("-1", "The binding key must be greater than 0"),
    ("10001", "The binding key must not exceed 10000"),
])
def test_b092_a_key_that_is_no_weight_is_406(broker, ch, key, text):
    exchange, queue = declared(ch, "x-consistent-hash"), ch.queue()
    if key == "10001" and broker.flavor == "rabbitmq3":
        pytest.skip("3.10 has no largest weight")
    with ch.closes(406, REFUSED + text, "queue.bind"):
        ch.bind(queue, exchange, key)


@pytest.mark.parametrize("arguments, text", [
    ({"hash-header": "a", "hash-property": "message_id"}, "hash-header and hash-property are mutually exclusive"),
    ({"hash-property": "app_id"}, "Unsupported property: app_id"),
])
def test_b092_hash_arguments_are_checked(ch, arguments, text):
    declared(ch, "x-consistent-hash")
    with ch.closes(406, REFUSED + text, "exchange.declare"):
        ch.exchange("x-consistent-hash", arguments=arguments)


# ------------------------------------------------------------------------------------------ random


@pytest.mark.parametrize("kind", ["x-random", "x-local-random"])
def test_f119_random_takes_one_queue_and_each_gets_its_share(ch, kind):
    exchange = declared(ch, kind)
    names = queues(ch, 3)
    for name in names:
        ch.bind(name, exchange, "")
    got = spread(ch, exchange, names, [("same", {})] * 300)
    assert sum(map(len, got.values())) == 300
    assert all(len(indices) > 50 for indices in got.values()), {name: len(got[name]) for name in names}


def test_f119_random_counts_bindings(ch):
    exchange = declared(ch, "x-random")
    names = queues(ch, 2)
    for n in range(9):
        ch.bind(names[0], exchange, str(n))
    ch.bind(names[1], exchange)
    got = spread(ch, exchange, names, [("same", {})] * 300)
    assert len(got[names[0]]) > 230


def test_f116_local_random_takes_no_binding_key(ch):
    exchange, queue = declared(ch, "x-local-random"), ch.queue()
    with ch.closes(406, REFUSED + "Non empty binding 'k' key not permitted", "queue.bind"):
        ch.bind(queue, exchange, "k")


def test_f116_local_random_binds_no_exchanges(ch):
    exchange = declared(ch, "x-local-random")
    with ch.closes(406, REFUSED + "Destination not found", "exchange.bind"):
        ch.call("exchange.bind", source=exchange, destination="amq.fanout", routing_key="")


@pytest.mark.parametrize("kind, key", [("x-random", ""), ("x-local-random", ""), ("x-consistent-hash", "1")])
def test_f119_a_lone_queue_gets_everything(ch, kind, key):
    exchange = declared(ch, kind)
    names = queues(ch, 1)
    ch.bind(names[0], exchange, key)
    assert spread(ch, exchange, names, [("k", {})] * 5) == {names[0]: [0, 1, 2, 3, 4]}


@pytest.mark.parametrize("kind", ["x-random", "x-consistent-hash", "x-modulus-hash", "x-recent-history"])
def test_f119_a_missing_queue_is_404_whatever_the_key(ch, kind):
    exchange = declared(ch, kind)
    with ch.closes(404, "NOT_FOUND - no queue 'nowhere' in vhost '/'", "queue.bind"):
        ch.bind("nowhere", exchange, "k")


# ------------------------------------------------------------------------------------------ x-jms-topic


def selecting(selector):
    return {"rjms_erlang_selector": selector}


def test_f121_jms_selectors_select_by_headers(ch):
    exchange = declared(ch, "x-jms-topic")
    selectors = {
        "flag": '{ident,<<"flag">>}.',
        "blue": '{\'and\',{\'=\',{ident,<<"color">>},<<"blue">>},{\'>\',{ident,<<"size">>},3}}.',
        "like": '{like,{ident,<<"color">>},<<"b_u%">>,no_escape}.',
        "between": '{between,{ident,<<"size">>},{range,1,3}}.',
        "in": '{in,{ident,<<"color">>},[<<"red">>,<<"green">>]}.',
        "absent": '{is_null,{ident,<<"size">>}}.',
        "sum": '{\'=\',{\'+\',{ident,<<"size">>},1},5.0}.',
        "not": '{\'not\',{\'=\',{ident,<<"color">>},<<"blue">>}}.',
    }
    names = {label: ch.queue() for label in selectors}
    for label, selector in selectors.items():
        ch.bind(names[label], exchange, "topic", selecting(selector))
    messages = [
        {"flag": True, "color": "blue", "size": T("I", 4)},
        {"flag": False, "color": "blueish", "size": T("I", 2)},
        {"color": "red"},
        {"flag": "true", "size": T("d", 4.0)},
        {},
    ]
    got = spread(ch, exchange, names.values(), [("any", {"headers": headers}) for headers in messages])
    assert {label: got[name] for label, name in names.items()} == {
        "flag": [0],
        "blue": [0],
        "like": [0, 1],
        "between": [1],
        "in": [2],
        "absent": [2, 4],
        "sum": [0, 3],
        "not": [1, 2],
    }


@pytest.mark.parametrize("selector, text", [
    ("", "invalid JMS selector: unexpected_end"),
    ("{foo}", 'invalid JMS selector: {disallowed_atom,"foo"}'),
    ("[1,2", "invalid JMS selector: expected_comma_or_closing_bracket"),
    ("{like,{ident,<<\"a\">>},<<\"a%\">>,<<\"ab\">>}", "invalid JMS selector pattern: {invalid_like_pattern,invalid_escape}"),
])
def test_f121_jms_selectors_are_checked(broker, ch, selector, text):
    exchange, queue = declared(ch, "x-jms-topic"), ch.queue()
    if broker.flavor == "rabbitmq3":
        pytest.skip("3.10 does not check selectors")
    with ch.closes(406, REFUSED + text, "queue.bind"):
        ch.bind(queue, exchange, "k", selecting(selector))


# ------------------------------------------------------------------------------------------ x-recent-history


def test_f120_recent_history_gives_a_new_queue_the_latest_messages(ch):
    exchange = declared(ch, "x-recent-history", {"x-recent-history-length": 3})
    early, late = ch.queue(), ch.queue()
    ch.bind(early, exchange)
    spread(ch, exchange, [], [(f"k{n}", {"headers": {"n": n}}) for n in range(5)])
    assert ch.drain(early) == [b"0", b"1", b"2", b"3", b"4"]
    ch.bind(late, exchange)
    first = client.eventually(lambda: ch.get(late, no_ack=True))
    assert (first.body, first.exchange, first.routing_key, first.props["headers"]) == (b"2", exchange, "k2", {"n": 2})
    assert ch.drain(late) == [b"3", b"4"]
    assert ch.drain(early) == []


def test_f120_recent_history_keeps_20_messages_by_default(ch):
    exchange = declared(ch, "x-recent-history")
    spread(ch, exchange, [], [("k", {})] * 30)
    queue = ch.queue()
    ch.bind(queue, exchange)
    assert [int(body) for body in client.eventually(lambda: ch.drain(queue))] == list(range(10, 30))


def test_f120_recent_history_gives_a_new_exchange_messages_with_all_their_keys(ch):
    exchange, bound = declared(ch, "x-recent-history"), ch.exchange("direct")
    queues = {key: ch.queue() for key in ("key", "cc", "bcc")}
    for key, queue in queues.items():
        ch.bind(queue, bound, key)
    ch.publish(exchange, "key", b"m", headers={"CC": ["cc"], "BCC": ["bcc"]})
    ch.call("exchange.bind", destination=bound, source=exchange, routing_key="", arguments={})
    for queue in queues.values():
        got = client.eventually(lambda queue=queue: ch.get(queue, no_ack=True), "a message")
        assert (got.routing_key, got.body, set(got.props["headers"])) == ("key", b"m", {"CC"})


def test_f120_recent_history_does_not_keep_what_says_so(ch):
    exchange = declared(ch, "x-recent-history")
    hidden = {"headers": {"x-recent-history-no-store": True}}
    shown = {"headers": {"x-recent-history-no-store": "true"}}
    spread(ch, exchange, [], [("k", {}), ("k", hidden), ("k", shown)])
    queue = ch.queue()
    ch.bind(queue, exchange)
    assert client.eventually(lambda: ch.drain(queue)) == [b"0", b"2"]


def test_f120_recent_history_reaches_queues_behind_a_bound_exchange(ch):
    exchange, sink = declared(ch, "x-recent-history"), ch.exchange("topic")
    queue = ch.queue()
    ch.bind(queue, sink, "yes.#")
    spread(ch, exchange, [], [("yes.1", {})])
    ch.call("exchange.bind", source=exchange, destination=sink)
    assert client.eventually(lambda: ch.drain(queue)) == [b"0"]


@pytest.mark.parametrize("length, shown", [(0, "0"), (-1, "-1"), ("5", '<<"5">>')])
def test_f120_the_length_of_a_history_is_checked(ch, length, shown):
    declared(ch, "x-recent-history")
    text = f"Invalid argument {shown}, 'x-recent-history-length' must be a positive integer"
    with ch.closes(406, REFUSED + text, "exchange.declare"):
        ch.exchange("x-recent-history", arguments={"x-recent-history-length": length})


# ------------------------------------------------------------------------------------------ all of them


@pytest.mark.parametrize(
    "kind", ["x-modulus-hash", "x-local-random", "x-consistent-hash", "x-random", "x-recent-history", "x-jms-topic"]
)
def test_b047_types_beside_the_classic_ones_can_be_redeclared(ch, kind):
    name = declared(ch, kind)
    ch.call("exchange.declare", exchange=name, type=kind)
    text = f"inequivalent arg 'type' for exchange '{name}' in vhost '/': received 'fanout' but current is ''{kind}''"
    with ch.closes(406, REFUSED + text, "exchange.declare"):
        ch.call("exchange.declare", exchange=name, type="fanout")


# ------------------------------------------------------------------------------------------ explanations (Warren's own)


def explained(broker, *args):
    if broker.flavor != "warren":
        pytest.skip("Warren's own")
    return broker.ctl("-q", "explain_route", *args).splitlines()


def test_explain_route_tells_matches_near_misses_and_the_end(broker, ch):
    exchange, queue = ch.exchange("topic"), ch.queue()
    ch.bind(queue, exchange, "a.*")
    ch.bind(queue, exchange, "b.*")
    lines = explained(broker, exchange, "a.x")
    assert lines[:4] == [
        f"1. exchange '{exchange}' (topic), published here",
        "   1 of 2 bindings match",
        f"   + 'a.*' -> queue '{queue}'",
        f"   - 'b.*' -> queue '{queue}': word 1 is 'a', not 'b'",
    ]
    assert lines[4].startswith(f"Goes to queue '{queue}' (")


def test_explain_route_follows_alternate_exchanges_to_a_dead_end(broker, ch):
    spare = ch.exchange("headers")
    exchange, queue = ch.exchange(arguments={"alternate-exchange": spare}), ch.queue()
    ch.bind(queue, exchange, "Key")
    ch.bind(queue, spare, "", {"color": "blue"})
    lines = explained(broker, exchange, "key", "color=red")
    assert "the keys differ only in upper and lower case" in lines[2]
    assert lines[3] == f"   nothing matches: on to the alternate exchange '{spare}'"
    assert "header 'color' has another value" in lines[6]
    assert lines[-1].startswith("Goes nowhere: dropped, or returned if published as mandatory")


def test_explain_route_tells_what_happens_before_bindings_are_asked(broker, ch):
    if broker.flavor != "warren":
        pytest.skip("Warren's own")
    queue = ch.queue()
    delays = declared(ch, "x-delayed-message", {"x-delayed-type": "direct"})
    seen = declared(ch, "x-message-deduplication", {"x-cache-size": 10})
    inner = ch.exchange("fanout", internal=True)
    for exchange in (delays, seen, inner):
        ch.bind(queue, exchange, "k")
    lines = explained(broker, delays, "k", "x-delay=5000")
    assert lines[0].endswith("(x-delayed-message, direct), published here")
    assert lines[1].startswith("   waits here for 5000 ms")
    assert lines[-1].startswith(f"Goes to queue '{queue}', after the delay above")
    both, other = ch.exchange("fanout"), ch.queue()
    ch.bind(queue, both)
    ch.bind(other, both)
    ch.call("exchange.bind", destination=delays, source=both, routing_key="", arguments={})
    once, later = explained(broker, both, "k", "x-delay=5000")[-1].split(", at once; and to ")
    assert once.startswith("Goes to 2 queues: ") and later.startswith(f"queue '{queue}', after the delay above (")
    only = explained(broker, both, "other", "x-delay=5000")[-1]
    assert only.startswith("Goes to 2 queues: ") and ", at once; nowhere after the delay above (" in only
    ch.call("confirm.select")
    ch.confirmed(seen, "k", "1", headers={"x-deduplication-header": "a"})
    for _ in range(2):
        lines = explained(broker, seen, "k", "x-deduplication-header=a")
        assert "is a duplicate" in lines[1] and lines[-1].startswith("Goes nowhere")
        assert "1 of 1 bindings match" in explained(broker, seen, "k", "x-deduplication-header=b")[1]
    assert "a client that publishes here is refused with 403" in explained(broker, inner, "k")[1]


def test_explain_route_follows_copies_and_tells_what_queues_do_with_the_message(broker, ch):
    if broker.flavor != "warren":
        pytest.skip("Warren's own")
    exchange, one, two = ch.exchange("topic"), ch.queue(), ch.queue()
    ch.bind(one, exchange, "a")
    ch.bind(two, exchange, "b.c")
    assert explained(broker, exchange, "a", "CC=b.c", "CC=x")[-1].startswith("Goes to 2 queues: ")
    assert explained(broker, exchange, "zz", "BCC=b.c")[-1].startswith(f"Goes to queue '{two}'")
    assert explained(broker, "amq.default", "nope", f"CC={one}")[-1].startswith(f"Goes to queue '{one}'")
    unique = ch.queue(client.fresh("q"), arguments={"x-message-deduplication": True})
    full = ch.queue(client.fresh("q"), arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    ch.call("confirm.select")
    ch.confirmed("", unique, headers={"x-deduplication-header": "a"})
    twice = explained(broker, "amq.default", unique, "x-deduplication-header=a")
    assert twice[-1] == f"Queue '{unique}' drops it: a message with the same x-deduplication-header is in the queue"
    once = explained(broker, "amq.default", unique, "x-deduplication-header=b")
    assert once[-1].startswith(f"Goes to queue '{unique}'")
    assert explained(broker, "amq.default", full)[-1].startswith(f"Queue '{full}' refuses it")


def test_explain_route_judges_limits_by_the_size_of_the_body_and_knows_who_is_served_before_them(broker, ch):
    if broker.flavor != "warren":
        pytest.skip("Warren's own")
    limited = ch.queue(client.fresh("q"), arguments={"x-max-length-bytes": 100, "x-overflow": "reject-publish"})
    assert "refuses" not in "".join(explained(broker, "amq.default", limited, "--body-bytes", "100"))
    assert explained(broker, "amq.default", limited, "--body-bytes=101")[-1].startswith(f"Queue '{limited}' refuses it")
    served = ch.queue(client.fresh("q"), arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    assert explained(broker, "amq.default", served)[-1].startswith(f"Queue '{served}' refuses it")
    drops = ch.queue(client.fresh("q"), arguments={"x-max-length-bytes": 10})
    assert explained(broker, "amq.default", drops, "--body-bytes=10")[-1].startswith(f"Goes to queue '{drops}'")
    line = explained(broker, "amq.default", drops, "--body-bytes=11")[-1]
    assert line == f"Queue '{drops}' drops it at once: its limit leaves no room for it"
    buries = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": drops}
    expires = ch.queue(client.fresh("q"), arguments={"x-message-ttl": 0, **buries})
    line = explained(broker, "amq.default", expires)[-1]
    assert line.startswith(f"Queue '{expires}' lets it expire at once") and line.endswith("dead-letter exchange")
    refuses = ch.queue(client.fresh("q"), arguments={"x-max-length": 0, "x-overflow": "reject-publish-dlx", **buries})
    line = explained(broker, "amq.default", refuses)[-1]
    assert line.startswith(f"Queue '{refuses}' refuses it") and line.endswith("dead-letter exchange")
    ch.consume(served, no_ack=True)
    assert explained(broker, "amq.default", served)[-1].startswith(f"Goes to queue '{served}'")
    ch.publish("", served, b"served")
    ch.deliver(b"served")


def test_explain_route_knows_consumers_of_direct_replies_among_the_keys(broker, ch):
    if broker.flavor != "warren":
        pytest.skip("Warren's own")
    queue = ch.queue()
    ch.consume("amq.rabbitmq.reply-to", no_ack=True)
    ch.publish("", queue, b"", reply_to="amq.rabbitmq.reply-to")
    address = client.eventually(lambda: ch.get(queue, no_ack=True)).props["reply_to"]
    direct = "Goes to the consumer of direct replies"
    assert explained(broker, "amq.default", address)[-1].startswith(f"{direct} (")
    assert "dead end" not in "".join(explained(broker, "amq.default", address))
    for key, copy in ((address, queue), (queue, address)):
        assert explained(broker, "amq.default", key, f"CC={copy}")[-1].startswith(f"{direct}, and to queue '{queue}' (")
    ch.shut()
    gone = explained(broker, "amq.default", address)[-1]
    assert gone.startswith("Goes nowhere, silently: the consumer of direct replies is gone")


def test_explain_route_tells_values_of_another_type_from_other_values(broker, ch):
    if broker.flavor != "warren":
        pytest.skip("Warren's own")
    exchange, queue = ch.exchange("headers"), ch.queue()
    ch.bind(queue, exchange, "", {"n": 1})
    assert explained(broker, exchange, "", "n:s=1")[2].endswith(": header 'n' has the value as text, not as integer")
    assert explained(broker, exchange, "", "n:f=1")[2].endswith(": header 'n' has the value as float, not as integer")
    assert explained(broker, exchange, "", "n=2")[2].endswith(": header 'n' has another value")


def test_explain_route_takes_headers_of_any_type_and_prints_no_control_characters(broker, ch):
    exchange, queue = ch.exchange("headers"), ch.queue(client.fresh("red\x1b[31m"))
    ch.bind(queue, exchange, "", {"s": "5"})
    assert "   0 of 1 bindings match" in explained(broker, exchange, "", "s=5")
    lines = explained(broker, exchange, "", "s:s=5")
    assert "   1 of 1 bindings match" in lines
    assert "\x1b" not in "".join(lines) and "red\\u{1b}[31m" in lines[-1]


def test_explain_route_tells_which_binding_of_a_ring_counts(broker, ch):
    exchange, queue = declared(ch, "x-consistent-hash"), ch.queue()
    ch.bind(queue, exchange, "3")
    ch.bind(queue, exchange, "5")
    lines = explained(broker, exchange, "k")
    assert lines[1:4] == [
        "   1 of 2 bindings match",
        f"   + '3' -> queue '{queue}'",
        f"   - '5' -> queue '{queue}': does not count: its destination has an older binding to this ring",
    ]


def test_ring_state_of_a_consistent_hash_exchange(broker, ch):
    if broker.flavor != "warren":
        pytest.skip("with RabbitMQ a command of rabbitmq-diagnostics")
    exchange = declared(ch, "x-consistent-hash")
    names, _ = bound_ring(ch, exchange, [2, 1])
    got = broker.ctl("-q", "consistent_hash_exchange_ring_state", exchange).split("\n")
    ring = [names[0], names[0], names[1]]
    assert got[:3] == [f"Ring index: {index}, queue: '{name}'" for index, name in enumerate(ring)]
