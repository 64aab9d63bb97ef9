"""B139-B150: message and queue TTL, length limits and overflow modes, dead-lettering and the headers it leaves."""

import time

import pytest

from client import eventually, fresh
from wire import T, plain


class Letterbox:
    """A dead-letter exchange with one queue, and queues that dead-letter to it."""

    def __init__(self, ch, kind="fanout"):
        self.ch = ch
        self.exchange = ch.exchange(kind, durable=True)
        self.dead = ch.queue()
        if kind == "fanout":
            ch.bind(self.dead, self.exchange)

    def source(self, key=None, **arguments):
        """A durable queue that dead-letters here."""
        args = {"x-dead-letter-exchange": self.exchange}
        if key is not None:
            args["x-dead-letter-routing-key"] = key
        args.update({f"x-{name.replace('_', '-')}": value for name, value in arguments.items()})
        return self.ch.queue(durable=True, arguments=args)

    def next(self):
        return eventually(lambda: self.ch.get(self.dead, no_ack=True), "dead-lettered")

    def empty(self):
        self.ch.nothing()
        return self.ch.ready(self.dead) == 0


@pytest.fixture
def box(ch):
    return Letterbox(ch)


def reject(ch, queue):
    ch.reject(eventually(lambda: ch.get(queue)).delivery_tag, requeue=False)


# ------------------------------------------------------------------------------------------ TTL


def test_b139_queue_ttl_expires_messages(ch):
    queue = ch.queue(arguments={"x-message-ttl": 100})
    ch.put(queue, b"a", b"b")
    eventually(lambda: ch.ready(queue) == 0)


def test_b139_message_expiration(ch):
    queue = ch.queue()
    ch.put(queue, b"short", expiration="100")
    ch.put(queue, b"long")
    eventually(lambda: ch.ready(queue) == 1)
    assert ch.get(queue).body == b"long"


@pytest.mark.parametrize("queue_ttl, message_ttl", [(100, "60000"), (60000, "100")])
def test_b139_the_lower_ttl_counts(ch, queue_ttl, message_ttl):
    queue = ch.queue(arguments={"x-message-ttl": queue_ttl})
    ch.put(queue, b"m", expiration=message_ttl)
    eventually(lambda: ch.ready(queue) == 0)


def test_b139_a_long_lived_head_hides_expired_messages_behind_it(ch):
    queue = ch.queue()
    ch.put(queue, b"head", expiration="60000")
    ch.put(queue, b"hidden", expiration="50")
    time.sleep(0.3)
    assert ch.ready(queue) == 2
    assert ch.get(queue).body == b"head"
    assert ch.get(queue) is None


def test_b139_expired_messages_are_never_delivered(ch):
    queue = ch.queue()
    ch.put(queue, *[b"dead"] * 20, expiration="60")
    ch.put(queue, b"alive")
    time.sleep(0.25)
    ch.consume(queue)
    ch.deliver(b"alive")


def test_b139_unacked_messages_do_not_expire(ch):
    queue = ch.queue(arguments={"x-message-ttl": 100})
    ch.put(queue, b"m")
    event = ch.get(queue)
    time.sleep(0.3)
    ch.ack(event.delivery_tag)
    ch.queue()


def test_b140_ttl_0_delivers_to_a_ready_consumer(ch):
    queue = ch.queue(arguments={"x-message-ttl": 0})
    ch.consume(queue, no_ack=True)
    ch.publish("", queue, b"now")
    ch.deliver(b"now")


def test_b140_expiration_0_delivers_to_a_ready_consumer(ch):
    queue = ch.queue()
    ch.consume(queue, no_ack=True)
    ch.publish("", queue, b"now", expiration="0")
    ch.deliver(b"now")


def test_b140_ttl_0_without_a_consumer_dead_letters(ch, box):
    queue = box.source(message_ttl=0)
    ch.publish("", queue, b"late")
    assert box.next().body == b"late"


def test_b140_ttl_0_with_a_full_consumer_dead_letters(ch, box):
    queue = box.source(message_ttl=0)
    ch.qos(1)
    ch.consume(queue)
    ch.publish("", queue, b"first")
    ch.deliver(b"first")
    ch.publish("", queue, b"second")
    assert box.next().body == b"second"


def test_b141_requeue_keeps_the_original_expiry(ch, box):
    queue = box.source(message_ttl=300)
    ch.put(queue, b"m")
    event = ch.get(queue)
    time.sleep(0.5)
    ch.reject(event.delivery_tag, requeue=True)
    dead = box.next()
    assert dead.props["headers"]["x-death"][0]["reason"] == "expired"


# ------------------------------------------------------------------------------------------ length limits


def test_b142_max_length_drops_the_oldest(ch):
    queue = ch.queue(arguments={"x-max-length": 3})
    ch.put(queue, *"abcde")
    assert ch.drain(queue) == [b"c", b"d", b"e"]


def test_b142_max_length_bytes_counts_bodies(ch):
    queue = ch.queue(arguments={"x-max-length-bytes": 10})
    ch.put(queue, b"aaaa", b"bbbb", b"cc", b"d", headers={"not": "counted"})
    assert ch.drain(queue) == [b"bbbb", b"cc", b"d"]


def test_b142_a_message_above_max_length_bytes_is_dropped_itself(ch):
    queue = ch.queue(arguments={"x-max-length-bytes": 10})
    ch.put(queue, b"small", b"much too large for it")
    assert ch.drain(queue) == []


def test_b142_both_limits_apply(ch):
    queue = ch.queue(arguments={"x-max-length": 2, "x-max-length-bytes": 100})
    ch.put(queue, b"a", b"b", b"c")
    assert ch.drain(queue) == [b"b", b"c"]


def test_b142_unacked_messages_do_not_count(ch):
    queue = ch.queue(arguments={"x-max-length": 2})
    ch.put(queue, b"a", b"b")
    assert [ch.get(queue).body for _ in range(2)] == [b"a", b"b"]
    ch.put(queue, b"c", b"d")
    assert ch.ready(queue) == 2
    ch.nack(0, multiple=True)
    eventually(lambda: ch.ready(queue) == 2)
    assert ch.drain(queue) == [b"c", b"d"]


def test_b142_max_length_0_delivers_to_a_ready_consumer_only(ch):
    queue = ch.queue(arguments={"x-max-length": 0})
    ch.put(queue, b"dropped")
    ch.consume(queue, no_ack=True)
    ch.publish("", queue, b"direct")
    ch.deliver(b"direct")


def test_b142_dropped_head_is_dead_lettered_as_maxlen(ch, box):
    queue = box.source(max_length=1)
    ch.put(queue, b"a", b"b")
    dead = box.next()
    assert dead.body == b"a"
    assert dead.props["headers"]["x-first-death-reason"] == "maxlen"


@pytest.mark.parametrize("limit", [{"x-max-length": 2}, {"x-max-length-bytes": 2}], ids=lambda d: next(iter(d)))
def test_b142_reject_publish_refuses_the_newest(ch, limit):
    queue = ch.queue(arguments=limit | {"x-overflow": "reject-publish"})
    ch.call("confirm.select")
    outcomes = [ch.confirmed("", queue, body) for body in "abcd"]
    assert outcomes == [True, True, False, False]
    assert ch.drain(queue) == [b"a", b"b"]


def test_b142_reject_publish_without_confirms_drops_silently(ch):
    queue = ch.queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    for body in "abc":
        ch.publish("", queue, body)
    ch.nothing()
    assert ch.drain(queue) == [b"a"]


def test_b142_reject_publish_does_not_dead_letter(ch, box):
    queue = box.source(max_length=1, overflow="reject-publish")
    ch.call("confirm.select")
    assert [ch.confirmed("", queue) for _ in range(2)] == [True, False]
    assert box.empty()


def test_b150_reject_publish_dlx_nacks_and_dead_letters_the_newest_as_maxlen(ch, box):
    queue = box.source(max_length=1, overflow="reject-publish-dlx")
    ch.call("confirm.select")
    assert [ch.confirmed("", queue, body) for body in "ab"] == [True, False]
    dead = box.next()
    assert dead.body == b"b"
    assert dead.props["headers"]["x-death"][0]["reason"] == "maxlen"
    assert ch.drain(queue) == [b"a"]


# ------------------------------------------------------------------------------------------ dead-lettering


@pytest.mark.parametrize("method", ["reject", "nack"])
def test_b144_rejected_messages_are_dead_lettered(ch, box, method):
    queue = box.source()
    ch.put(queue, b"m")
    getattr(ch, method)(ch.get(queue).delivery_tag, requeue=False)
    assert box.next().body == b"m"


def test_b144_requeued_messages_are_not(ch, box):
    queue = box.source()
    ch.put(queue, b"m")
    ch.reject(ch.get(queue).delivery_tag, requeue=True)
    assert box.empty()


def test_b144_acked_purged_and_deleted_messages_are_not(ch, box):
    queue = box.source()
    ch.put(queue, b"a", b"b", b"c")
    ch.ack(ch.get(queue).delivery_tag)
    ch.call("queue.purge", queue=queue)
    ch.put(queue, b"d")
    ch.call("queue.delete", queue=queue)
    assert box.empty()


def test_b144_missing_dead_letter_exchange_drops_silently(ch):
    queue = ch.queue(arguments={"x-dead-letter-exchange": fresh("missing")})
    ch.put(queue, b"m")
    reject(ch, queue)
    ch.nothing()
    assert ch.ready(queue) == 0


def test_b144_mandatory_is_not_kept(ch):
    queue = ch.queue(arguments={"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": fresh("k")})
    ch.publish("", queue, mandatory=True)
    reject(ch, queue)
    ch.nothing()


def test_b144_a_dead_letter_exchange_made_later_is_used(ch):
    name = fresh("x")
    queue = ch.queue(arguments={"x-dead-letter-exchange": name})
    ch.put(queue, b"m")
    event = ch.get(queue)
    dead = ch.queue()
    ch.exchange("fanout", name=name)
    ch.bind(dead, name)
    ch.reject(event.delivery_tag, requeue=False)
    assert eventually(lambda: ch.get(dead)).body == b"m"


def test_b144_through_the_default_exchange(ch):
    dead = ch.queue()
    queue = ch.queue(arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    ch.put(queue, b"m")
    reject(ch, queue)
    event = eventually(lambda: ch.get(dead))
    assert (event.exchange, event.routing_key, event.body) == ("", dead, b"m")


def test_b144_alternate_exchange_of_the_dead_letter_exchange_is_used(ch, box):
    dlx = ch.exchange("direct", arguments={"alternate-exchange": box.exchange})
    queue = ch.queue(arguments={"x-dead-letter-exchange": dlx})
    ch.put(queue, b"m")
    reject(ch, queue)
    assert box.next().body == b"m"


def test_b145_exchange_becomes_the_dlx_and_the_key_stays(ch, box):
    exchange = ch.exchange("topic")
    queue = box.source()
    ch.bind(queue, exchange, "#")
    ch.publish(exchange, "original.key", b"m")
    reject(ch, queue)
    dead = box.next()
    assert (dead.exchange, dead.routing_key) == (box.exchange, "original.key")


def test_b130_redelivered_of_a_dead_letter(broker, ch, box):
    """4.3 marks a dead letter redelivered when it had been delivered before it was rejected; 3.10 does not. A client may
    rely on neither (the flag only says "may have been seen"), so Warren is free."""
    queue = box.source()
    ch.put(queue, b"m")
    reject(ch, queue)
    redelivered = box.next().redelivered
    assert broker.flavor == "warren" or redelivered == broker.pick(True, rabbitmq3=False)


def test_b130_dead_letter_that_was_never_delivered_is_not_redelivered(ch, box):
    queue = box.source()
    ch.put(queue, b"m", expiration="30")
    assert box.next().redelivered is False


def test_b145_dead_letter_routing_key_replaces_the_key_and_cc(broker, ch):
    box = Letterbox(ch, "direct")
    ch.bind(box.dead, box.exchange, "new")
    copied, cc = ch.queue(), fresh("cc")
    ch.bind(copied, box.exchange, cc)
    queue = box.source(key="new")
    ch.put(queue, b"m", headers={"CC": [cc]})
    reject(ch, queue)
    dead = box.next()
    assert dead.routing_key == "new"
    assert ("CC" in dead.props["headers"]) == broker.pick(True, rabbitmq3=False)  # 4.3 shows it still but routes without it
    ch.nothing()
    assert ch.ready(copied) == 0


def test_b145_without_it_cc_keys_route_too(ch):
    box = Letterbox(ch, "direct")
    cc = fresh("cc")
    ch.bind(box.dead, box.exchange, cc)
    queue = box.source()
    ch.put(queue, b"m", headers={"CC": [cc]})
    reject(ch, queue)
    dead = box.next()
    assert dead.routing_key == queue
    assert dead.props["headers"]["CC"] == [cc]


def test_b145_bcc_keys_route_too_and_stay_hidden(ch):
    box = Letterbox(ch, "direct")
    bcc = fresh("bcc")
    ch.bind(box.dead, box.exchange, bcc)
    queue = box.source()
    ch.put(queue, b"m", headers={"BCC": [bcc]})
    reject(ch, queue)
    dead = box.next()
    assert "BCC" not in dead.props["headers"]
    assert dead.props["headers"]["x-death"][0]["routing-keys"] == [queue]


def test_b145_bcc_keys_route_beyond_the_first_death_unless_a_queue_gives_another_key(ch):
    box, bcc = Letterbox(ch, "direct"), fresh("bcc")
    ch.bind(box.dead, box.exchange, bcc)
    for key, arrives in ((None, True), ("new", False)):
        second = box.source()
        arguments = {"x-dead-letter-exchange": "amq.topic"}
        if key:
            arguments["x-dead-letter-routing-key"] = key
        first = ch.queue(durable=True, arguments=arguments)
        ch.bind(second, "amq.topic", key or first)
        ch.put(first, b"m", headers={"BCC": [bcc]})
        reject(ch, first)
        reject(ch, second)
        if arrives:
            assert box.next().routing_key == first
        else:
            assert box.empty()


def test_b145_expiration_is_taken_off_and_remembered(ch, box):
    queue = box.source()
    ch.put(queue, b"m", expiration="50")
    dead = box.next()
    assert "expiration" not in dead.props
    assert dead.props["headers"]["x-death"][0]["original-expiration"] == "50"


def test_b145_other_properties_are_kept(ch, box):
    queue = box.source()
    props = dict(
        content_type="text/plain", delivery_mode=2, priority=4, correlation_id="c", reply_to="r", message_id="m",
        timestamp=77, type="t", app_id="a",
    )  # fmt: skip
    ch.put(queue, b"m", headers={"mine": [1, {"two": 3}]}, **props)
    reject(ch, queue)
    dead = box.next()
    assert {key: dead.props[key] for key in props} == props
    assert dead.props["headers"]["mine"] == [1, {"two": 3}]


# ------------------------------------------------------------------------------------------ x-death


def deaths(event):
    """The x-death array, typed: [[(key, T)...]...]."""
    field = dict(event.props["typed_headers"])["x-death"]
    assert field.kind == "A" and all(item.kind == "F" for item in field.value)
    return [item.value for item in field.value]


def test_b146_x_death_layout_types_and_order(ch, box):
    exchange = ch.exchange("direct")
    queue = box.source()
    ch.bind(queue, exchange, "k")
    before = int(time.time())
    ch.publish(exchange, "k", b"m", headers={"CC": ["other"]})
    reject(ch, queue)
    entry = deaths(box.next())[0]
    assert [(key, value.kind) for key, value in entry] == [
        ("count", "l"), ("reason", "S"), ("queue", "S"), ("time", "T"), ("exchange", "S"), ("routing-keys", "A"),
    ]  # fmt: skip
    values = plain(entry)
    assert abs(values.pop("time") - before) <= 5
    assert values == {
        "count": 1, "reason": "rejected", "queue": queue, "exchange": exchange, "routing-keys": ["k", "other"],
    }  # fmt: skip
    assert all(item.kind == "S" for item in dict(entry)["routing-keys"].value)


def test_b146_original_expiration_is_a_string_first_in_4_3_and_last_before(broker, ch, box):
    queue = box.source()
    ch.put(queue, b"m", expiration="40")
    entry = deaths(box.next())[0]
    assert entry[broker.pick(0, rabbitmq3=-1)] == ("original-expiration", T("S", "40"))


@pytest.mark.parametrize("reason", ["rejected", "expired", "maxlen"])
def test_b150_reasons(ch, box, reason):
    queue = box.source(max_length=1)
    if reason == "expired":
        ch.put(queue, b"m", expiration="30")
    else:
        ch.put(queue, b"m")
    if reason == "rejected":
        reject(ch, queue)
    if reason == "maxlen":
        ch.put(queue, b"other")
    assert plain(deaths(box.next())[0])["reason"] == reason


def test_b147_first_and_last_death_headers(broker, ch):
    first, second, sink = fresh("first"), fresh("second"), ch.queue()
    ch.queue(second, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": sink})
    ch.queue(first, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": second})
    ch.put(first, b"m", expiration="30")
    reject(ch, second)
    headers = eventually(lambda: ch.get(sink)).props["headers"]
    expected = {
        "x-first-death-queue": first, "x-first-death-reason": "expired", "x-first-death-exchange": "",
    }  # fmt: skip
    if broker.flavor != "rabbitmq3":
        expected |= {
            "x-last-death-queue": second, "x-last-death-reason": "rejected", "x-last-death-exchange": "",
        }  # fmt: skip
    assert {key: value for key, value in headers.items() if key.startswith(("x-first", "x-last"))} == expected
    assert [(death["queue"], death["reason"]) for death in headers["x-death"]] == [
        (second, "rejected"),
        (first, "expired"),
    ]


def test_b147_death_headers_are_strings(broker, ch, box):
    queue = box.source()
    ch.put(queue, b"m")
    reject(ch, queue)
    headers = dict(box.next().props["typed_headers"])
    names = ["x-first-death-queue", "x-first-death-reason", "x-first-death-exchange"]
    if broker.flavor != "rabbitmq3":
        names += ["x-last-death-queue", "x-last-death-reason", "x-last-death-exchange"]
    assert {headers[name].kind for name in names} == {"S"}


def test_b146_repeat_only_raises_the_count_and_moves_to_the_front(ch):
    work, wait = fresh("work"), fresh("wait")
    ch.queue(work, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": wait})
    ch.queue(wait, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": work, "x-message-ttl": 30})
    ch.publish("", work, b"retry me")
    for round_ in range(3):
        event = eventually(lambda: ch.get(work), f"round {round_}")
        if round_ < 2:
            ch.reject(event.delivery_tag, requeue=False)
    got = [(d["queue"], d["reason"], d["count"]) for d in event.props["headers"]["x-death"]]
    assert got == [(wait, "expired", 2), (work, "rejected", 2)]
    first = event.props["headers"]["x-first-death-queue"]
    assert first == work


def test_b146_copies_are_keys_until_a_queue_gives_the_message_its_own(ch):
    first, second, third = fresh("first"), fresh("second"), fresh("third")
    ch.queue(first, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": second})
    ch.queue(second, arguments={"x-dead-letter-exchange": "amq.direct"})
    ch.queue(third)
    elsewhere = ch.queue()
    ch.bind(third, "amq.direct", second)
    ch.bind(elsewhere, "amq.direct", "copy")
    ch.publish("", first, b"m", headers={"CC": ["copy"]})
    for queue in (first, second):
        ch.reject(eventually(lambda: ch.get(queue)).delivery_tag, requeue=False)
    event = eventually(lambda: ch.get(third))
    got = [(d["queue"], d["routing-keys"]) for d in event.props["headers"]["x-death"]]
    assert got == [(second, [second]), (first, [first, "copy"])]
    assert ch.get(elsewhere) is None


def test_b146_time_stays_that_of_the_first_death(broker, ch):
    work, wait = fresh("work"), fresh("wait")
    ch.queue(work, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": wait})
    ch.queue(wait, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": work, "x-message-ttl": 1200})
    ch.publish("", work, b"m")
    times = []
    for _ in range(3):
        event = eventually(lambda: ch.get(work))
        if "headers" in event.props:
            times.append({d["queue"]: d["time"] for d in event.props["headers"]["x-death"]}[work])
        ch.reject(event.delivery_tag, requeue=False)
    assert times[0] == times[1]


def test_b146_same_queue_other_reason_is_another_entry(ch):
    sink = ch.queue()
    queue = fresh("q")
    ch.queue(queue, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": sink})
    ch.put(queue, b"m", expiration="30")
    dead = eventually(lambda: ch.get(sink, no_ack=True))
    entry = dead.props["headers"]["x-death"]
    assert [(d["queue"], d["reason"], d["count"]) for d in entry] == [(queue, "expired", 1)]


def test_b148_published_x_death_is_not_interpreted_since_4(broker, ch, box):
    queue = box.source()
    forged = [{"count": 7, "reason": "rejected", "queue": queue, "time": T("T", 1), "exchange": "", "routing-keys": ["k"]}]
    forged[0]["count"] = T("l", 7)
    ch.put(queue, b"m", headers={"x-death": forged})
    reject(ch, queue)
    entries = box.next().props["headers"]["x-death"]
    counts = [entry["count"] for entry in entries if entry["queue"] == queue]
    assert counts == broker.pick([1], rabbitmq3=[8])


def test_b148_published_x_death_is_carried_to_the_first_consumer(ch):
    queue = ch.queue()
    ch.put(queue, b"m", headers={"x-death": "mine"})
    assert ch.get(queue).props["headers"] == {"x-death": "mine"}


def test_b149_automatic_cycle_is_cut(ch):
    name = fresh("q")
    ch.queue(name, arguments={"x-dead-letter-exchange": "", "x-message-ttl": 30})
    ch.put(name, b"m")
    eventually(lambda: ch.ready(name) == 0)
    ch.nothing(0.2)
    assert ch.ready(name) == 0


def test_b149_two_queue_cycle_by_expiry_is_cut(ch):
    a, b = fresh("a"), fresh("b")
    ch.queue(a, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": b, "x-message-ttl": 30})
    ch.queue(b, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": a, "x-message-ttl": 30})
    ch.put(a, b"m")
    time.sleep(0.5)
    assert (ch.ready(a), ch.ready(b)) == (0, 0)


def test_b149_a_cycle_with_a_rejection_goes_on(ch):
    name = fresh("q")
    ch.queue(name, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name})
    ch.put(name, b"m")
    for _ in range(3):
        reject(ch, name)
    headers = eventually(lambda: ch.get(name)).props["headers"]
    assert [(d["queue"], d["count"]) for d in headers["x-death"]] == [(name, 3)]


def test_b149_the_cut_is_per_queue(ch, box):
    """In a fanout back to the source and to another queue, only the copy for the source is dropped."""
    queue = box.source(message_ttl=30)
    ch.bind(queue, box.exchange)
    ch.put(queue, b"m")
    assert box.next().body == b"m"
    ch.nothing(0.2)
    assert ch.ready(queue) == 0
    assert box.empty()


def test_dead_letters_keep_their_order(ch, box):
    queue = box.source(max_length=1)
    ch.put(queue, *[str(n) for n in range(100)])
    eventually(lambda: ch.ready(box.dead) == 99)
    assert ch.drain(box.dead) == [str(n).encode() for n in range(99)]


def test_expired_messages_dead_letter_in_order_with_their_reason(ch, box):
    queue = box.source(message_ttl=80)
    ch.put(queue, *[str(n) for n in range(50)])
    eventually(lambda: ch.ready(box.dead) == 50)
    assert ch.drain(box.dead) == [str(n).encode() for n in range(50)]
