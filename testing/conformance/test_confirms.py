"""B104-B108: publisher confirms: modes, numbering, coalescing, and when a message is acked or nacked."""

import pytest

import client


@pytest.fixture
def pub(ch):
    """A confirming channel."""
    ch.call("confirm.select")
    return ch


# ------------------------------------------------------------------------------------------ modes


def test_b104_confirm_select_is_idempotent_and_keeps_counting(pub):
    queue = pub.queue()
    assert pub.confirmed("", queue)
    pub.call("confirm.select")
    pub.publish("", queue)
    assert pub.next("basic.ack").delivery_tag == 2


def test_b104_confirm_select_nowait_answers_nothing(ch):
    ch.send("confirm.select", nowait=True)
    ch.publish("", client.fresh("q"))
    assert ch.next("basic.ack").delivery_tag == 1


def test_b104_confirm_after_tx_is_406(ch):
    ch.call("tx.select")
    with ch.closes(406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode", "confirm.select"):
        ch.call("confirm.select")


def test_b104_tx_after_confirm_is_406(pub):
    with pub.closes(406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode", "tx.select"):
        pub.call("tx.select")


def test_b104_channels_without_confirm_get_no_acks(ch):
    ch.publish("", ch.queue())
    ch.nothing()


# ------------------------------------------------------------------------------------------ each settled once


@pytest.mark.parametrize("durable, mode", [(True, 2), (True, 1), (False, 1)], ids=["persistent", "transient", "exclusive"])
def test_b105_every_publish_is_settled_exactly_once(pub, durable, mode):
    queue = pub.queue(durable=durable)
    for number in range(1000):
        pub.publish("", queue, str(number), delivery_mode=mode)
    settled = pub.confirms(1000)
    assert sorted(settled) == list(range(1, 1001)) and all(settled.values())
    pub.nothing()
    assert pub.ready(queue) == 1000


def test_b105_multiple_never_covers_a_nack(pub):
    full = pub.queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    free = pub.queue()
    for number in range(200):
        pub.publish("", full if number % 3 == 0 else free)
    settled = pub.confirms(200)
    expected = {n: not ((n - 1) % 3 == 0 and n > 1) for n in range(1, 201)}
    assert settled == expected


def test_b105_channels_are_confirmed_separately(conn, pub):
    other = conn.channel()
    other.call("confirm.select")
    queue = pub.queue()
    for _ in range(50):
        pub.publish("", queue)
        other.publish("", queue)
    assert len(pub.confirms(50)) == 50
    assert len(other.confirms(50)) == 50


# ------------------------------------------------------------------------------------------ when


def test_b106_unroutable_is_acked(pub):
    assert pub.confirmed("amq.direct", client.fresh("k"))


def test_b106_a_confirmed_message_is_in_the_queue(pub):
    queue = pub.queue()
    for number in range(20):
        assert pub.confirmed("", queue)
        assert pub.ready(queue) == number + 1


def test_b106_persistent_to_durable_is_acked_without_a_consumer(pub):
    queue = pub.queue(durable=True)
    assert pub.confirmed("", queue, delivery_mode=2)


def test_b106_persistent_and_consumed_and_acked_is_acked(conn, pub):
    queue = pub.queue(durable=True)
    consumer = conn.channel()
    consumer.consume(queue)
    pub.publish("", queue, delivery_mode=2)
    consumer.ack(consumer.deliver().delivery_tag)
    assert pub.next("basic.ack").delivery_tag == 1


def test_b106_all_target_queues_must_agree(pub):
    exchange = pub.exchange("fanout")
    queues = [pub.queue(durable=True), pub.queue(), pub.queue(durable=True)]
    for queue in queues:
        pub.bind(queue, exchange)
    assert pub.confirmed(exchange, "", delivery_mode=2)
    assert [pub.ready(queue) for queue in queues] == [1, 1, 1]


def test_b106_message_that_expires_at_once_is_acked(pub):
    assert pub.confirmed("", pub.queue(durable=True), expiration="0", delivery_mode=2)
    assert pub.confirmed("", pub.queue(durable=True, arguments={"x-message-ttl": 0}), delivery_mode=2)


def test_b106_message_dropped_from_the_head_is_acked(pub):
    queue = pub.queue(durable=True, arguments={"x-max-length": 1})
    for _ in range(20):
        pub.publish("", queue, delivery_mode=2)
    assert all(pub.confirms(20).values())


# ------------------------------------------------------------------------------------------ nacks


def test_b107_full_queue_with_reject_publish_nacks(pub):
    queue = pub.queue(arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    assert [pub.confirmed("", queue) for _ in range(4)] == [True, True, False, False]
    assert pub.get(queue, no_ack=True)
    assert pub.confirmed("", queue)


def test_b107_other_queues_keep_their_copy_of_a_nacked_message(pub):
    exchange = pub.exchange("fanout")
    full, free = pub.queue(arguments={"x-max-length": 0, "x-overflow": "reject-publish"}), pub.queue()
    pub.bind(full, exchange)
    pub.bind(free, exchange)
    assert pub.confirmed(exchange) is False
    assert (pub.ready(full), pub.ready(free)) == (0, 1)


def test_b108_publishes_to_a_queue_being_deleted_are_acked(pub):
    queue = pub.queue(durable=True)
    for _ in range(300):
        pub.publish("", queue, bytes(2000), delivery_mode=2)
    pub.send("queue.delete", queue=queue, nowait=True)
    assert all(pub.confirms(300).values())


def test_b108_purge_does_not_lose_confirms(pub):
    queue = pub.queue(durable=True)
    for _ in range(300):
        pub.publish("", queue, bytes(2000), delivery_mode=2)
    pub.send("queue.purge", queue=queue, nowait=True)
    assert all(pub.confirms(300).values())


# ------------------------------------------------------------------------------------------ an ordinary client agrees


def pika_channel(url):
    pika = pytest.importorskip("pika")
    connection = pika.BlockingConnection(pika.URLParameters(url))
    return pika, connection, connection.channel()


def test_pika_sees_acks_nacks_and_unroutables(broker):
    pika, connection, channel = pika_channel(broker.url)
    channel.confirm_delivery()
    name = channel.queue_declare(
        "", exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
    ).method.queue
    channel.basic_publish("", name, b"one", mandatory=True)
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", name, b"two", mandatory=True)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", client.fresh("missing"), b"three", mandatory=True)
    connection.close()


def test_pika_sees_a_channel_error_and_goes_on(broker):
    pika, connection, channel = pika_channel(broker.url)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        channel.queue_declare("nowhere", passive=True)
    assert closed.value.reply_code == 404
    channel = connection.channel()
    name = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_publish("", name, b"body", pika.BasicProperties(headers={"k": [1, "two", {"three": 3}]}))
    method, props, body = next(channel.consume(name, inactivity_timeout=5))
    assert (method.delivery_tag, body, props.headers) == (1, b"body", {"k": [1, "two", {"three": 3}]})
    connection.close()
