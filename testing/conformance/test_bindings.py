"""B82-B96: bindings, their identity, and what each exchange type routes where; alternate exchanges, cycles, CC and BCC."""

import pytest

import client
from wire import T

GONE = "NOT_FOUND - no {} 'nowhere' in vhost '/'"


class Router:
    """Publishes and says which of the queues under test got a copy, and how many."""

    def __init__(self, ch):
        self.ch, self.pub, self.queues = ch, ch.connection.channel(), {}
        self.pub.call("confirm.select")

    def queue(self, label, exchange=None, key="", arguments=None):
        self.queues.setdefault(label, None)
        if self.queues[label] is None:
            self.queues[label] = self.ch.queue()
        if exchange is not None:
            self.ch.bind(self.queues[label], exchange, key, arguments)
        return self.queues[label]

    def routed(self, exchange, key="", **props):
        """{label: copies} of one publish."""
        assert self.pub.confirmed(exchange, key, b"routed", **props)
        copies = {label: len(self.ch.drain(queue)) for label, queue in self.queues.items()}
        return {label: count for label, count in copies.items() if count}


@pytest.fixture
def router(ch):
    return Router(ch)


def e2e(ch, source, destination, key="", **args):
    ch.call("exchange.bind", source=source, destination=destination, routing_key=key, **args)


# ------------------------------------------------------------------------------------------ identity


def test_b084_binding_twice_is_one_binding(ch, router):
    exchange = ch.exchange()
    queue = router.queue("q", exchange, "k")
    ch.bind(queue, exchange, "k")
    assert router.routed(exchange, "k") == {"q": 1}
    ch.call("queue.unbind", queue=queue, exchange=exchange, routing_key="k")
    assert router.routed(exchange, "k") == {}


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic"])
def test_b084_arguments_are_part_of_a_bindings_identity(ch, router, kind):
    exchange = ch.exchange(kind)
    queue = router.queue("q", exchange, "k", {"a": 1})
    ch.bind(queue, exchange, "k", {"a": 2})
    assert router.routed(exchange, "k") == {"q": 1}
    ch.call("queue.unbind", queue=queue, exchange=exchange, routing_key="k", arguments={"a": 1})
    assert router.routed(exchange, "k") == {"q": 1}
    ch.call("queue.unbind", queue=queue, exchange=exchange, routing_key="k", arguments={"a": 2})
    assert router.routed(exchange, "k") == {}


def test_b084_unbind_with_other_arguments_leaves_the_binding(ch, router):
    exchange = ch.exchange()
    queue = router.queue("q", exchange, "k", {"a": 1})
    ch.call("queue.unbind", queue=queue, exchange=exchange, routing_key="k")
    assert router.routed(exchange, "k") == {"q": 1}


def test_b084_argument_order_does_not_matter_to_identity(ch, router):
    exchange = ch.exchange()
    queue = router.queue("q", exchange, "k", {"a": 1, "b": 2})
    ch.call("queue.unbind", queue=queue, exchange=exchange, routing_key="k", arguments={"b": 2, "a": 1})
    assert router.routed(exchange, "k") == {}


def test_b084_key_is_part_of_the_identity_even_where_it_is_ignored(ch, router):
    exchange = ch.exchange("fanout")
    queue = router.queue("q", exchange, "a")
    ch.bind(queue, exchange, "b")
    ch.call("queue.unbind", queue=queue, exchange=exchange, routing_key="a")
    assert router.routed(exchange) == {"q": 1}


# ------------------------------------------------------------------------------------------ missing ends


def test_b085_binding_a_missing_queue_is_404(ch):
    with ch.closes(404, GONE.format("queue"), "queue.bind"):
        ch.bind("nowhere", "amq.direct", "k")


def test_b085_binding_to_a_missing_exchange_is_404(ch):
    with ch.closes(404, GONE.format("exchange"), "queue.bind"):
        ch.bind(ch.queue(), "nowhere", "k")


@pytest.mark.parametrize("missing", ["source", "destination"])
def test_b085_exchange_binding_with_a_missing_end_is_404(ch, missing):
    ends = {"source": "amq.fanout", "destination": "amq.direct"} | {missing: "nowhere"}
    with ch.closes(404, GONE.format("exchange"), "exchange.bind"):
        ch.call("exchange.bind", **ends)


def test_b085_unbinding_what_is_not_there_succeeds(ch):
    queue = ch.queue()
    ch.call("queue.unbind", queue=queue, exchange="amq.direct", routing_key="never")
    ch.call("queue.unbind", queue=queue, exchange="nowhere", routing_key="k")
    ch.call("queue.unbind", queue="nowhere", exchange="amq.direct", routing_key="k")
    ch.call("exchange.unbind", source="nowhere", destination="amq.direct", routing_key="k")
    ch.call("exchange.unbind", source="amq.fanout", destination="nowhere", routing_key="k")


def test_b086_every_queue_is_bound_to_the_default_exchange_by_its_name(ch, router):
    queue = router.queue("q")
    assert router.routed("", queue) == {"q": 1}


# ------------------------------------------------------------------------------------------ once per queue


def test_b087_a_queue_gets_one_copy_however_many_bindings_match(ch, router):
    exchange = ch.exchange("topic")
    for key in ("a.b", "a.*", "#", "*.b", "a.#"):
        router.queue("q", exchange, key)
    assert router.routed(exchange, "a.b") == {"q": 1}


def test_b087_one_copy_through_two_paths_of_exchanges(ch, router):
    top, left, right = ch.exchange("fanout"), ch.exchange("fanout"), ch.exchange("direct")
    e2e(ch, top, left)
    e2e(ch, top, right)
    router.queue("q", left)
    router.queue("q", right, "k")
    router.queue("q", top)
    assert router.routed(top, "k") == {"q": 1}


def test_b087_one_copy_with_cc(ch, router):
    queue = router.queue("q", "amq.direct", name := client.fresh("k"))
    ch.bind(queue, "amq.direct", name + "2")
    assert router.routed("amq.direct", name, headers={"CC": [name, name + "2"]}) == {"q": 1}


# ------------------------------------------------------------------------------------------ direct and fanout


def test_direct_routes_by_the_exact_key(ch, router):
    exchange = ch.exchange("direct")
    router.queue("a", exchange, "a")
    router.queue("ab", exchange, "a")
    router.queue("ab", exchange, "b")
    router.queue("empty", exchange, "")
    assert router.routed(exchange, "a") == {"a": 1, "ab": 1}
    assert router.routed(exchange, "b") == {"ab": 1}
    assert router.routed(exchange, "") == {"empty": 1}
    assert router.routed(exchange, "A") == {}
    assert router.routed(exchange, "#") == {}


def test_b090_fanout_ignores_keys(ch, router):
    exchange = ch.exchange("fanout")
    router.queue("a", exchange, "x")
    router.queue("b", exchange)
    assert router.routed(exchange, "whatever") == {"a": 1, "b": 1}


# ------------------------------------------------------------------------------------------ topic

TOPIC = [
    ("a.b", "a.b", True), ("a.b", "a.b.c", False), ("a.b", "a", False),
    ("*", "a", True), ("*", "", False), ("*", "a.b", False),
    ("#", "", True), ("#", "a", True), ("#", "a.b.c.d", True),
    ("a.*", "a.b", True), ("a.*", "a", False), ("a.*", "a.b.c", False), ("a.*", "a.", True),
    ("*.b", "a.b", True), ("*.b", ".b", True), ("*.b", "b", False),
    ("a.#", "a", True), ("a.#", "a.b", True), ("a.#", "a.b.c", True), ("a.#", "ab", False),
    ("#.z", "z", True), ("#.z", "a.b.z", True), ("#.z", "a.z.b", False),
    ("a.#.z", "a.z", True), ("a.#.z", "a.b.c.z", True), ("a.#.z", "a.z.b", False),
    ("*.#", "a", True), ("*.#", "", False), ("#.*", "a.b", True), ("#.*", "", False),
    ("*.*", ".", True), ("a..b", "a..b", True), ("a.*.b", "a..b", True), ("a.#.b", "a..b", True),
    ("", "", True), ("", "a", False), ("a.b#", "a.bc", False), ("a*", "ab", False), ("a*", "a*", True),
    ("#.a.#", "a", True), ("#.a.#", "x.a.y.z", True), ("#.a.#", "x.b", False),
    ("A", "a", False), ("*.é.*", "x.é.y", True),
]  # fmt: skip


def test_b088_topic_patterns(ch):
    exchange = ch.exchange("topic")
    ch.call("confirm.select")
    wrong = []
    for pattern, key, matches in TOPIC:
        queue = ch.queue()
        ch.bind(queue, exchange, pattern)
        assert ch.confirmed(exchange, key)
        if bool(ch.drain(queue)) != matches:
            wrong.append((pattern, key, matches))
        ch.call("queue.delete", queue=queue)
    assert not wrong


def test_b088_all_topic_patterns_at_once_route_as_each_alone(ch, router):
    exchange = ch.exchange("topic")
    for pattern in sorted({pattern for pattern, _, _ in TOPIC}):
        router.queue(pattern, exchange, pattern)
    for key in sorted({key for _, key, _ in TOPIC}):
        got = router.routed(exchange, key)
        for pattern, k, matches in TOPIC:
            if k == key:
                assert got.get(pattern, 0) == int(matches), (pattern, key, got)


def test_b088_empty_key_on_one_topic_exchange_does_not_reach_another(ch, router):
    first, second = ch.exchange("topic"), ch.exchange("topic")
    router.queue("first", first, "")
    router.queue("second", second, "")
    assert router.routed(first, "") == {"first": 1}


def test_b088_removing_a_topic_binding_leaves_its_neighbours(ch, router):
    exchange = ch.exchange("topic")
    queue = router.queue("q", exchange, "a.b.c")
    router.queue("r", exchange, "a.b")
    router.queue("s", exchange, "a.b.c")
    ch.call("queue.unbind", queue=queue, exchange=exchange, routing_key="a.b.c")
    assert router.routed(exchange, "a.b.c") == {"s": 1}
    assert router.routed(exchange, "a.b") == {"r": 1}


def test_b088_three_hashes_in_a_binding_key(broker, ch, router):
    exchange = ch.exchange("topic")
    if broker.flavor == "rabbitmq3":
        router.queue("q", exchange, "#.a.#.b.#")
        assert router.routed(exchange, "a.x.b") == {"q": 1}
        return
    queue = ch.queue()
    with pytest.raises(client.ChannelClosed) as closed:
        ch.bind(queue, exchange, "#.a.#.b.#")
    assert (closed.value.code, closed.value.method) == (406, "queue.bind")


# ------------------------------------------------------------------------------------------ headers

HEADERS = [
    # binding arguments, message headers, matches
    ({"x-match": "all", "a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
    ({"x-match": "all", "a": 1, "b": 2}, {"a": 1}, False),
    ({"x-match": "all", "a": 1}, {"a": 2}, False),
    ({"a": 1, "b": 2}, {"a": 1}, False),
    ({"a": 1, "b": 2}, {"a": 1, "b": 2}, True),
    ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
    ({"x-match": "any", "a": 1, "b": 2}, {"b": 3}, False),
    ({"x-match": "any", "a": 1}, {}, False),
    ({"x-match": "all"}, {"z": 1}, True),
    ({"x-match": "all"}, {}, True),
    ({}, {}, True),
    ({"x-match": "any"}, {"z": 1}, False),
    ({"x-match": "all", "a": None}, {"a": "anything"}, True),
    ({"x-match": "all", "a": None}, {"b": 1}, False),
    ({"x-match": "any", "a": None}, {"a": 5}, True),
    ({"x-match": "all", "x-a": 1, "b": 1}, {"b": 1}, True),
    ({"x-match": "any", "x-a": 1, "b": 1}, {"x-a": 1}, False),
    ({"x-match": "all", "a": "1"}, {"a": 1}, False),
    ({"x-match": "all", "a": True}, {"a": True}, True),
    ({"x-match": "all", "a": True}, {"a": False}, False),
    ({"x-match": "all", "a": T("l", 7)}, {"a": T("b", 7)}, True),
    ({"x-match": "all", "a": "text"}, {"a": "text"}, True),
    ({"x-match": "all", "a": "text"}, {"a": "Text"}, False),
    ({"x-match": "all", "a": 1.5}, {"a": 1.5}, True),
    ({"x-match": "any", "a": 1, "b": 2}, {"a": 1, "b": 2}, True),
]
WITH_X = [
    ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 1}, True),
    ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 2}, False),
    ({"x-match": "all-with-x", "x-a": 1, "b": 1}, {"b": 1}, False),
    ({"x-match": "any-with-x", "x-a": 1, "b": 1}, {"x-a": 1}, True),
    ({"x-match": "any-with-x", "x-a": 1}, {"b": 1}, False),
]


@pytest.mark.parametrize("arguments, headers, matches", HEADERS, ids=str)
def test_b089_headers_exchange(ch, router, arguments, headers, matches):
    exchange = ch.exchange("headers")
    router.queue("q", exchange, "ignored", arguments)
    assert router.routed(exchange, "any key", headers=headers) == ({"q": 1} if matches else {})


@pytest.mark.parametrize("arguments, headers, matches", WITH_X, ids=str)
def test_b089_headers_exchange_with_x(ch, router, arguments, headers, matches):
    exchange = ch.exchange("headers")
    router.queue("q", exchange, "", arguments)
    assert router.routed(exchange, "", headers=headers) == ({"q": 1} if matches else {})


def test_b089_a_message_without_headers_matches_like_an_empty_table(ch, router):
    exchange = ch.exchange("headers")
    router.queue("all", exchange, "", {"x-match": "all"})
    router.queue("any", exchange, "", {"x-match": "any"})
    router.queue("a", exchange, "", {"a": 1})
    assert router.routed(exchange) == {"all": 1}


@pytest.mark.parametrize("value", ["some", "", "ALL"], ids=repr)
def test_b089_unknown_x_match_is_406(ch, value):
    shown = f'<<"{value}">>' if value else "<<>>"
    text = (
        f"PRECONDITION_FAILED - Invalid x-match field value {shown}; "
        "expected all, any, all-with-x, or any-with-x"
    )
    with ch.closes(406, text, "queue.bind"):
        ch.bind(ch.queue(), "amq.headers", "", {"x-match": value})


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1, "signedint (value 1)"),
        (None, "void (value undefined)"),
        (True, "bool (value true)"),
        ({}, "table (value [])"),
        ({"a": 1}, 'table (value [{<<"a">>,signedint,1}])'),
        (["a", 1], 'array (value [{longstr,<<"a">>},{signedint,1}])'),
    ],
    ids=repr,
)
def test_b089_x_match_of_another_type_is_406(ch, value, shown):
    text = f"PRECONDITION_FAILED - Invalid x-match field type {shown}; expected longstr"
    with ch.closes(406, text, "queue.bind"):
        ch.bind(ch.queue(), "amq.headers", "", {"x-match": value})


def test_b089_amq_match_is_a_headers_exchange(ch, router):
    router.queue("q", "amq.match", "", mark := {client.fresh("h"): 1})
    assert router.routed("amq.match", "", headers=mark) == {"q": 1}


def test_b089_every_matching_headers_binding_counts(ch, router):
    exchange = ch.exchange("headers")
    router.queue("a", exchange, "", {"a": 1})
    router.queue("ab", exchange, "", {"x-match": "any", "a": 1, "b": 1})
    router.queue("b", exchange, "", {"b": 1})
    assert router.routed(exchange, "", headers={"a": 1}) == {"a": 1, "ab": 1}


# ------------------------------------------------------------------------------------------ exchange to exchange


def test_f010_exchange_to_exchange_routes_with_the_original_key(ch, router):
    source, sink = ch.exchange("topic"), ch.exchange("direct")
    e2e(ch, source, sink, "a.*")
    router.queue("ab", sink, "a.b")
    router.queue("ac", sink, "a.c")
    assert router.routed(source, "a.b") == {"ab": 1}
    assert router.routed(source, "b.b") == {}


def test_f010_cycles_are_walked_once(ch, router):
    exchanges = [ch.exchange("fanout") for _ in range(3)]
    for at, exchange in enumerate(exchanges):
        e2e(ch, exchange, exchanges[(at + 1) % 3])
        router.queue(str(at), exchange)
    assert router.routed(exchanges[0]) == {"0": 1, "1": 1, "2": 1}


def test_f010_an_exchange_may_be_bound_to_itself(ch, router):
    exchange = ch.exchange("fanout")
    e2e(ch, exchange, exchange)
    router.queue("q", exchange)
    assert router.routed(exchange) == {"q": 1}


def test_f010_exchange_unbind(ch, router):
    source, sink = ch.exchange("fanout"), ch.exchange("fanout")
    e2e(ch, source, sink, arguments={"a": 1})
    router.queue("q", sink)
    ch.call("exchange.unbind", source=source, destination=sink, arguments={"a": 1})
    assert router.routed(source) == {}


def test_f010_deleting_the_destination_removes_the_binding(ch, router):
    source, sink = ch.exchange("direct"), ch.exchange("fanout")
    e2e(ch, source, sink, "k")
    ch.call("exchange.delete", exchange=sink)
    assert router.routed(source, "k") == {}
    ch.call("exchange.delete", exchange=source, if_unused=True)


def test_f010_delivered_exchange_is_the_one_published_to(ch):
    source, sink = ch.exchange("fanout"), ch.exchange("fanout")
    queue = ch.queue()
    e2e(ch, source, sink)
    ch.bind(queue, sink)
    ch.publish(source, "key")
    event = client.eventually(lambda: ch.get(queue))
    assert (event.exchange, event.routing_key) == (source, "key")


# ------------------------------------------------------------------------------------------ alternate exchange


def test_b093_alternate_exchange_gets_what_matches_no_queue(ch, router):
    alternate = ch.exchange("fanout")
    exchange = ch.exchange("direct", arguments={"alternate-exchange": alternate})
    router.queue("main", exchange, "k")
    router.queue("rest", alternate)
    assert router.routed(exchange, "k") == {"main": 1}
    assert router.routed(exchange, "other") == {"rest": 1}


def test_b093_alternate_exchanges_chain_and_cycles_stop(ch, router):
    first, second = client.fresh("x"), client.fresh("x")
    ch.exchange("direct", name=first, arguments={"alternate-exchange": second})
    ch.exchange("direct", name=second, arguments={"alternate-exchange": first})
    router.queue("q", second, "deep")
    assert router.routed(first, "deep") == {"q": 1}
    assert router.routed(first, "nothing") == {}


def test_b093_alternate_exchange_counts_as_routed_for_mandatory(ch):
    alternate = ch.exchange("fanout")
    exchange = ch.exchange("direct", arguments={"alternate-exchange": alternate})
    ch.call("confirm.select")
    ch.publish(exchange, "k", mandatory=True)
    assert ch.next().name == "basic.return"
    assert ch.next("basic.ack").delivery_tag == 1
    ch.bind(ch.queue(), alternate)
    ch.publish(exchange, "k", mandatory=True)
    assert ch.next("basic.ack").delivery_tag == 2


def test_b093_missing_alternate_exchange_is_silent(ch, router):
    exchange = ch.exchange("direct", arguments={"alternate-exchange": client.fresh("missing")})
    assert router.routed(exchange, "k") == {}


def test_b093_alternate_of_a_later_hop_is_used_too(ch, router):
    alternate = ch.exchange("fanout")
    inner = ch.exchange("direct", arguments={"alternate-exchange": alternate})
    outer = ch.exchange("fanout")
    e2e(ch, outer, inner)
    router.queue("rest", alternate)
    assert router.routed(outer, "unmatched") == {"rest": 1}


# ------------------------------------------------------------------------------------------ CC and BCC


def test_b094_cc_and_bcc_add_routing_keys(ch, router):
    exchange = ch.exchange("direct")
    for key in ("a", "b", "c", "d"):
        router.queue(key, exchange, key)
    assert router.routed(exchange, "a", headers={"CC": ["b"], "BCC": ["c"]}) == {"a": 1, "b": 1, "c": 1}


def test_b094_bcc_is_removed_and_cc_stays(ch):
    queue = ch.queue()
    ch.publish("", queue, headers={"CC": ["x"], "BCC": ["y"], "other": 1})
    event = client.eventually(lambda: ch.get(queue))
    assert event.props["headers"] == {"CC": ["x"], "other": 1}
    assert event.routing_key == queue


def test_b094_cc_on_the_default_exchange_names_queues(ch, router):
    first, second = router.queue("first"), router.queue("second")
    assert router.routed("", first, headers={"CC": [second]}) == {"first": 1, "second": 1}


@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize("value, kind", [("text", "longstr"), (1, "signedint")])
def test_b094_cc_of_another_type_is_406(ch, header, value, kind):
    text = f'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"{header}",{kind}}}'
    with ch.closes(406, text, "basic.publish"):
        ch.publish("amq.direct", "k", headers={header: value})


def test_b094_items_of_other_types_and_empty_arrays_are_ignored(ch, router):
    queue = router.queue("q")
    assert router.routed("", "x", headers={"CC": [1, queue, None]}) == {"q": 1}
    assert router.routed("", queue, headers={"CC": [], "BCC": []}) == {"q": 1}


def test_b094_cc_matches_on_a_topic_exchange(ch, router):
    exchange = ch.exchange("topic")
    router.queue("q", exchange, "x.*")
    assert router.routed(exchange, "none", headers={"CC": ["x.y"]}) == {"q": 1}


def test_b094_return_carries_the_first_key(ch):
    ch.publish("amq.direct", key := client.fresh("k"), mandatory=True, headers={"CC": ["other" + key]})
    assert ch.next("basic.return").routing_key == key


# ------------------------------------------------------------------------------------------ missing exchange


def test_b096_publishing_to_a_missing_exchange_is_404(ch):
    with ch.closes(404, GONE.format("exchange"), "basic.publish"):
        ch.publish("nowhere", "k")


def test_b096_later_publishes_on_that_channel_are_lost(conn, ch):
    queue = ch.queue()
    other = conn.channel()
    with other.closes(404, GONE.format("exchange"), "basic.publish"):
        other.publish("nowhere", "k")
        for _ in range(10):
            other.publish("", queue)
    ch.nothing()


def test_b096_deleted_exchange_is_missing_at_once(ch):
    exchange = ch.exchange()
    ch.call("exchange.delete", exchange=exchange)
    with ch.closes(404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'", "basic.publish"):
        ch.publish(exchange, "k")


def test_b050_line_ends_are_stripped_in_publish_and_bind_too(ch):
    exchange, queue = ch.exchange("direct"), ch.queue()
    ch.bind(queue + "\n", exchange + "\r", "k")
    ch.publish(exchange, "k")
    client.eventually(lambda: ch.get(queue))


# ------------------------------------------------------------------------------------------ many at once


def bind_many(ch, queue, exchange, count):
    """Binds with no-wait; returns when all bindings are there."""
    for n in range(count):
        ch.send("queue.bind", queue=queue, exchange=exchange, routing_key=f"k.{n}.*", nowait=True)
    ch.bind(queue, exchange, "last")


def test_b078_a_queue_with_thousands_of_bindings_is_deleted_with_them(ch, router):
    exchange, queue = ch.exchange("topic"), ch.queue()
    other = router.queue("other", exchange, "k.7.#")
    bind_many(ch, queue, exchange, 3000)
    assert ch.call("queue.delete", queue=queue).message_count == 0
    assert router.routed(exchange, "k.7.x") == {"other": 1}
    assert other == router.queue("other")
    ch.publish(exchange, "k.8.x", mandatory=True)
    assert ch.next("basic.return").reply_code == 312


def test_b053_an_exchange_with_thousands_of_bindings_is_deleted_with_them(ch):
    exchange, queue = ch.exchange("topic"), ch.queue()
    bind_many(ch, queue, exchange, 3000)
    ch.call("exchange.delete", exchange=exchange)
    ch.call("exchange.declare", exchange=exchange, type="topic")
    ch.publish(exchange, "last", mandatory=True)
    assert ch.next("basic.return").reply_code == 312
    ch.call("exchange.delete", exchange=exchange)
