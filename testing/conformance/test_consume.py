"""B115-B126, B133, B135-B138: consumers, their tags, prefetch, order, priorities, cancellation, and basic.get."""

import re
import time

import pytest

import client

# ------------------------------------------------------------------------------------------ tags


def test_b115_empty_tag_gets_a_server_tag(ch):
    assert re.fullmatch(r"amq\.ctag-[A-Za-z0-9_-]{22}", ch.consume(ch.queue()))


def test_b115_clients_tag_is_kept_and_echoed(ch):
    queue = ch.queue()
    assert ch.consume(queue, "my tag") == "my tag"
    ch.publish("", queue)
    assert ch.deliver().consumer_tag == "my tag"


def test_b115_reused_tag_is_530(conn, ch):
    queue = ch.queue()
    ch.consume(queue, "t")
    with conn.closes(530, "NOT_ALLOWED - attempt to reuse consumer tag 't'", "basic.consume"):
        ch.consume(queue, "t")


def test_b115_tag_is_free_after_cancel_and_on_other_channels(conn, ch):
    queue = ch.queue()
    ch.consume(queue, "t")
    conn.channel().consume(queue, "t")
    ch.call("basic.cancel", consumer_tag="t")
    ch.consume(queue, "t")


def test_b115_nowait_consume_answers_nothing(ch):
    queue = ch.queue()
    ch.send("basic.consume", queue=queue, consumer_tag="t", nowait=True)
    ch.publish("", queue)
    assert ch.next("basic.deliver").consumer_tag == "t"


# ------------------------------------------------------------------------------------------ refusals


def test_b116_consuming_a_missing_queue_is_404(ch):
    with ch.closes(404, "NOT_FOUND - no queue 'nowhere' in vhost '/'", "basic.consume"):
        ch.consume("nowhere")


@pytest.mark.parametrize("first, second", [(True, False), (False, True), (True, True)])
def test_b116_exclusive_consumer_conflict_is_403(ch, ch2, first, second):
    queue = ch.queue(durable=True)
    ch.consume(queue, exclusive=first)
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    with ch2.closes(403, text, "basic.consume"):
        ch2.consume(queue, exclusive=second)


def test_f026_exclusive_consumer_ends_with_its_cancel(ch, ch2):
    queue = ch.queue(durable=True)
    tag = ch.consume(queue, exclusive=True)
    ch.call("basic.cancel", consumer_tag=tag)
    ch2.consume(queue)


def test_f026_get_beside_an_exclusive_consumer(ch, ch2):
    queue = ch.queue(durable=True)
    ch.qos(1)
    ch.consume(queue, exclusive=True)
    ch.put(queue, b"a", b"b")
    assert ch2.get(queue).body == b"b"


def test_b120_prefetch_size_is_540(conn, ch):
    with conn.closes(540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)", "basic.qos"):
        ch.call("basic.qos", prefetch_size=10)


# ------------------------------------------------------------------------------------------ order of frames


def test_b117_consume_ok_precedes_the_first_delivery(ch):
    queue = ch.queue()
    ch.put(queue, b"a", b"b")
    ch.send("basic.consume", queue=queue, consumer_tag="t")
    assert [ch.next().name for _ in range(3)] == ["basic.consume-ok", "basic.deliver", "basic.deliver"]


def test_b117_nothing_is_delivered_after_cancel_ok(ch):
    queue = ch.queue()
    ch.put(queue, *[b"m"] * 200)
    tag = ch.consume(queue, no_ack=True)
    ch.send("basic.cancel", consumer_tag=tag)
    names = []
    while not names or names[-1] != "basic.cancel-ok":
        names.append(ch.next().name)
    ch.nothing()
    assert ch.ready(queue) + names.count("basic.deliver") == 200


def test_b117_cancelling_an_unknown_tag_is_answered(ch):
    assert ch.call("basic.cancel", consumer_tag="nobody").consumer_tag == "nobody"


def test_b117_nowait_cancel_answers_nothing(ch):
    queue = ch.queue()
    tag = ch.consume(queue)
    ch.send("basic.cancel", consumer_tag=tag, nowait=True)
    assert ch.consumers(queue) == 0
    ch.nothing()


def test_b118_cancel_keeps_unacked_messages_with_the_channel(ch):
    queue = ch.queue()
    ch.put(queue, b"a")
    tag = ch.consume(queue)
    delivery = ch.deliver().delivery_tag
    ch.call("basic.cancel", consumer_tag=tag)
    assert ch.get(queue) is None
    ch.ack(delivery)
    assert ch.ready(queue) == 0


def test_b118_after_the_cancel_they_can_still_be_requeued(ch):
    queue = ch.queue()
    ch.put(queue, b"a")
    tag = ch.consume(queue)
    delivery = ch.deliver().delivery_tag
    ch.call("basic.cancel", consumer_tag=tag)
    ch.reject(delivery)
    assert client.eventually(lambda: ch.get(queue)).redelivered is True


# ------------------------------------------------------------------------------------------ cancelled by the server


def test_b119_consumers_are_cancelled_when_the_queue_is_deleted(ch, ch2):
    queue = ch.queue(durable=True)
    first, second = ch.consume(queue), ch2.consume(queue)
    ch.send("queue.delete", queue=queue, nowait=True)
    for channel, tag in ((ch, first), (ch2, second)):
        cancel = channel.next("basic.cancel")
        assert (cancel.consumer_tag, cancel.nowait) == (tag, True)


def test_b119_the_deleting_channel_hears_delete_ok_before_its_cancels(ch):
    """py-amqp raises on a cancel that comes while it waits for delete-ok (kombu's event loop test found it)."""
    queue = ch.queue(durable=True)
    tags = {ch.consume(queue) for _ in range(3)}
    ch.send("queue.delete", queue=queue)
    ch.next("queue.delete-ok")
    assert {ch.next("basic.cancel").consumer_tag for _ in tags} == tags


def test_b119_incapable_clients_are_told_nothing(broker, ch):
    other = broker.connect(capabilities={}).channel()
    queue = ch.queue(durable=True)
    other.consume(queue)
    ch.call("queue.delete", queue=queue)
    other.nothing()
    other.queue()


def test_b119_cancel_after_an_expired_queue(ch):
    queue = ch.queue(durable=True, arguments={"x-expires": 150})
    tag = ch.consume(queue)
    ch.call("basic.cancel", consumer_tag=tag)
    ch.nothing(0.4)


def test_b119_the_tag_is_free_after_a_server_cancel(ch):
    queue = ch.queue()
    ch.consume(queue, "t")
    ch.call("queue.delete", queue=queue)
    ch.next("basic.cancel")
    ch.consume(ch.queue(), "t")


# ------------------------------------------------------------------------------------------ prefetch


def window(ch, expected):
    """The bodies delivered before it stalls."""
    bodies = [ch.deliver() for _ in range(expected)]
    ch.nothing()
    return bodies


def test_b120_prefetch_limits_unacked_per_consumer(ch):
    queue = ch.queue()
    ch.put(queue, *[b"m"] * 10)
    ch.qos(3)
    ch.consume(queue)
    events = window(ch, 3)
    ch.ack(events[0].delivery_tag)
    window(ch, 1)
    ch.ack(events[2].delivery_tag, multiple=True)
    window(ch, 2)


def test_b120_each_consumer_of_a_channel_has_its_own_window(ch):
    queue = ch.queue()
    ch.put(queue, *[b"m"] * 10)
    ch.qos(2)
    ch.consume(queue, "one")
    ch.consume(queue, "two")
    tags = [event.consumer_tag for event in window(ch, 4)]
    assert sorted(tags) == ["one", "one", "two", "two"]


def test_b120_qos_applies_to_later_consumers_only(ch):
    queue = ch.queue()
    ch.qos(1)
    ch.consume(queue, "early")
    ch.qos(3)
    ch.consume(queue, "late")
    ch.put(queue, *[b"m"] * 10)
    tags = [event.consumer_tag for event in window(ch, 4)]
    assert (tags.count("early"), tags.count("late")) == (1, 3)


def test_b120_prefetch_0_is_unlimited(ch):
    queue = ch.queue()
    ch.qos(1)
    ch.qos(0)
    ch.put(queue, *[b"m"] * 300)
    ch.consume(queue)
    window(ch, 300)


def test_b121_global_qos(broker, ch):
    """Denied by default in 4.3: it silently means per consumer. 3.10 and Warren limit the whole channel."""
    queue = ch.queue()
    ch.qos(3, global_=True)
    ch.consume(queue, "one")
    ch.consume(queue, "two")
    ch.put(queue, *[b"m"] * 10)
    window(ch, broker.pick(6, rabbitmq3=3, warren=3))


def test_b121_global_and_consumer_limits_both_apply(broker, ch):
    queue = ch.queue()
    ch.qos(2)
    if broker.flavor == "rabbitmq4":
        ch.qos(5, global_=True)
        ch.consume(queue, "one")
        ch.put(queue, *[b"m"] * 10)
        window(ch, 5)
        return
    ch.qos(3, global_=True)
    ch.consume(queue, "one")
    ch.consume(queue, "two")
    ch.put(queue, *[b"m"] * 10)
    events = window(ch, 3)
    assert all([event.consumer_tag for event in events].count(tag) <= 2 for tag in ("one", "two"))
    ch.ack(events[-1].delivery_tag, multiple=True)
    window(ch, 3)


def test_b121_raising_the_global_limit_takes_effect_at_once(broker, ch):
    queue = ch.queue()
    ch.qos(1, global_=True)
    ch.consume(queue)
    ch.put(queue, *[b"m"] * 10)
    window(ch, 1)
    ch.qos(4, global_=True)
    window(ch, broker.pick(0, rabbitmq3=3, warren=3))


def test_b121_lowering_the_global_limit_blocks_until_below_it(broker, ch):
    if broker.flavor == "rabbitmq4":
        return  # no global limit to lower, see above
    queue = ch.queue()
    ch.qos(5, global_=True)
    ch.consume(queue)
    ch.put(queue, *[b"m"] * 10)
    events = window(ch, 5)
    ch.qos(2, global_=True)
    ch.ack(events[2].delivery_tag, multiple=True)
    window(ch, 0)
    ch.ack(events[3].delivery_tag)
    window(ch, 1)


def test_b122_get_ignores_consumer_prefetch(ch):
    queue = ch.queue()
    ch.put(queue, *[b"m"] * 5)
    ch.qos(1)
    assert all(ch.get(queue) for _ in range(5))


def test_b122_get_ok_tells_what_is_left_and_get_empty_is_empty(ch):
    queue = ch.queue()
    ch.put(queue, b"a", b"b", b"c")
    assert [ch.get(queue).message_count for _ in range(3)] == [2, 1, 0]
    ch.send("basic.get", queue=queue)
    assert ch.next("basic.get-empty").cluster_id == ""


def test_b122_get_of_a_missing_queue_is_404(ch):
    with ch.closes(404, "NOT_FOUND - no queue 'nowhere' in vhost '/'", "basic.get"):
        ch.get("nowhere")


def test_b124_no_ack_ignores_prefetch(ch):
    queue = ch.queue()
    ch.qos(1)
    ch.put(queue, *[b"m"] * 50)
    ch.consume(queue, no_ack=True)
    assert len([ch.deliver() for _ in range(50)]) == 50


def test_b124_no_ack_messages_do_not_come_back(broker, ch):
    queue = ch.queue(durable=True)
    ch.put(queue, b"a", b"b")
    other = broker.connect()
    channel = other.channel()
    assert channel.get(queue, no_ack=True).body == b"a"
    channel.consume(queue, no_ack=True)
    channel.deliver(b"b")
    other.close()
    assert ch.ready(queue) == 0


def test_b124_acking_a_no_ack_delivery_is_an_unknown_tag(ch):
    queue = ch.queue()
    ch.put(queue, b"a")
    tag = ch.get(queue, no_ack=True).delivery_tag
    with ch.closes(406, "PRECONDITION_FAILED - unknown delivery tag 1", "basic.ack"):
        ch.ack(tag)


# ------------------------------------------------------------------------------------------ dispatch


def test_b133_round_robin_among_equal_consumers(ch):
    queue = ch.queue()
    for tag in "abc":
        ch.consume(queue, tag, no_ack=True)
    ch.put(queue, *[b"m"] * 9)
    tags = [ch.deliver().consumer_tag for _ in range(9)]
    assert sorted(tags[:3]) == ["a", "b", "c"] and tags[:3] * 3 == tags


def test_b133_a_full_consumer_is_skipped(ch):
    queue = ch.queue()
    ch.qos(1)
    ch.consume(queue, "slow")
    ch.qos(0)
    ch.consume(queue, "fast")
    ch.put(queue, *[b"m"] * 10)
    tags = [ch.deliver().consumer_tag for _ in range(10)]
    assert tags.count("slow") == 1


def test_f012_higher_priority_consumer_is_served_first_while_it_has_room(ch):
    queue = ch.queue()
    ch.qos(2)
    ch.consume(queue, "low", arguments={"x-priority": -5})
    ch.consume(queue, "normal")
    ch.consume(queue, "high", arguments={"x-priority": 10})
    ch.put(queue, *[b"m"] * 8)
    tags = [ch.deliver().consumer_tag for _ in range(6)]
    assert tags == ["high", "high", "normal", "normal", "low", "low"]
    ch.nothing()


def test_f012_consumer_priority_must_be_an_integer(ch):
    queue = ch.queue()
    with pytest.raises(client.ChannelClosed) as closed:
        ch.consume(queue, arguments={"x-priority": "high"})
    assert closed.value.code == 406
    assert "x-priority" in closed.value.text


def test_b137_deliveries_come_in_queue_order(ch):
    queue = ch.queue()
    ch.put(queue, *[str(n) for n in range(300)])
    ch.consume(queue)
    assert [ch.deliver().body for _ in range(300)] == [str(n).encode() for n in range(300)]


def test_b137_live_deliveries_keep_the_publish_order(ch):
    queue = ch.queue()
    ch.consume(queue, no_ack=True)
    for number in range(300):
        ch.publish("", queue, str(number))
    assert [ch.deliver().body for _ in range(300)] == [str(n).encode() for n in range(300)]


# ------------------------------------------------------------------------------------------ delivery fields, limits


def test_delivery_carries_exchange_key_and_redelivered_false(ch):
    exchange, queue = ch.exchange("topic"), ch.queue()
    ch.bind(queue, exchange, "a.#")
    ch.consume(queue)
    ch.publish(exchange, "a.b.c")
    event = ch.deliver()
    assert (event.exchange, event.routing_key, event.redelivered) == (exchange, "a.b.c", False)


def test_b138_no_local_is_ignored(ch):
    queue = ch.queue()
    ch.consume(queue, no_local=True)
    ch.publish("", queue, b"mine")
    ch.deliver(b"mine")


def test_b138_arguments_of_another_queue_type_are_406(broker, ch):
    queue = ch.queue()
    if broker.flavor == "rabbitmq3":
        with pytest.raises(client.ChannelClosed) as closed:
            ch.consume(queue, arguments={"x-stream-offset": "first"})
        assert closed.value.code == 406
        return
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue '{queue}' in vhost '/' "
        "of queue type rabbit_classic_queue"
    )
    with ch.closes(406, text, "basic.consume"):
        ch.consume(queue, arguments={"x-stream-offset": "first"})


def test_b138_consumer_timeout_is_an_argument_of_another_queue_type_since_4(broker, ch):
    queue = ch.queue()
    if broker.flavor == "rabbitmq3":
        ch.consume(queue, arguments={"x-consumer-timeout": 1000})
        return
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-consumer-timeout' for queue '{queue}' in vhost '/' "
        "of queue type rabbit_classic_queue"
    )
    with ch.closes(406, text, "basic.consume"):
        ch.consume(queue, arguments={"x-consumer-timeout": 1000})


def test_b138_unknown_consumer_arguments_are_ignored(ch):
    ch.consume(ch.queue(), arguments={"x-nonsense": 1, "y": {"z": []}})


def test_b135_consumer_timeout_by_queue_argument(broker, ch):
    """3.10 times consumers out by configuration only. 4.3 takes the argument on quorum queues only, takes back what the consumer holds, and
    cancels it."""
    arguments = {"x-consumer-timeout": 2000}
    if broker.flavor == "rabbitmq3":
        queue = ch.queue(arguments=arguments)
        ch.put(queue, b"m")
        other = ch.connection.channel()
        other.consume(queue)
        other.deliver()
        other.nothing(3)
        return
    refused = ch.connection.channel()
    with pytest.raises(client.ChannelClosed) as closed:
        refused.declare(arguments=arguments)
    assert "invalid arg 'x-consumer-timeout'" in closed.value.text
    queue = ch.queue(durable=True, arguments={**arguments, "x-queue-type": "quorum"})
    ch.put(queue, b"m")
    other = ch.connection.channel()
    tag = other.consume(queue)
    other.deliver()
    cancel = other.next("basic.cancel")
    assert (cancel.consumer_tag, cancel.nowait) == (tag, True)
    assert other.declare(queue, passive=True).message_count == 1
    other.consume(queue)
    again = other.deliver()
    headers = again.props["headers"]
    assert again.redelivered and headers["x-acquired-count"] == 1 and "x-delivery-count" not in headers


def test_b135_a_client_that_understands_no_cancel_loses_its_channel(broker):
    """Recorded for quorum queues: Warren's words are 3.10's."""
    if broker.flavor != "warren":
        pytest.skip("only Warren is asked")
    ch = broker.connect(capabilities={"consumer_cancel_notify": False}).channel()
    queue = ch.queue(durable=True, arguments={"x-consumer-timeout": 500, "x-queue-type": "quorum"})
    ch.put(queue, b"m")
    other = ch.connection.channel()
    other.consume(queue)
    other.deliver()
    text = (
        f"PRECONDITION_FAILED - delivery acknowledgement on channel {other.number} timed out. Timeout value used: 500 ms. "
        "This timeout value can be configured, see consumers doc guide to learn more"
    )
    began = time.monotonic()
    with other.closes(406, text):
        pass
    assert time.monotonic() - began < 7
    assert client.eventually(lambda: ch.get(queue)).redelivered is True


def test_a_consumer_that_does_not_read_does_not_stop_others(broker, ch):
    queue = ch.queue(durable=True)
    stuck = broker.connect()
    stuck.channel().send("basic.consume", queue=queue, no_ack=True)
    exchange = ch.exchange("fanout")
    other = ch.queue()
    ch.bind(queue, exchange)
    ch.bind(other, exchange)
    ch.call("confirm.select")
    for _ in range(30):
        ch.publish(exchange, "", bytes(500_000))
    ch.confirms(30)
    assert len(ch.drain(other)) == 30
