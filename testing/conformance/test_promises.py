"""Promises of an answer: effects that everybody sees once it is read, and answers in the order of their causes.

Applications rely on this without knowing: they close a connection and declare the same names again on the next one.
"""

import pytest

import client
from client import fresh


@pytest.fixture
def holder(broker):
    """A channel on a connection of its own, and ways to end it: by the name of the answer that is waited for."""
    connection = broker.connect()
    channel = connection.channel()

    def end(how, **cancel):
        if how == "basic.cancel-ok":
            channel.call("basic.cancel", **cancel)
        elif how == "channel.close-ok":
            channel.shut()
        else:
            connection.close()

    return channel, end


ENDS = ["channel.close-ok", "connection.close-ok"]
ALL = ["basic.cancel-ok", *ENDS]


@pytest.mark.parametrize("end", ENDS)
def test_b045_unacked_messages_are_ready_when_the_close_is_answered(ch, holder, end):
    channel, leave = holder
    queue = ch.queue(durable=True, exclusive=False)
    ch.put(queue, *[b"m"] * 5)
    channel.consume(queue)
    for _ in range(5):
        channel.deliver()
    leave(end)
    assert ch.ready(queue) == 5


@pytest.mark.parametrize("end", ENDS)
def test_b137_publishes_are_in_their_queue_when_the_close_is_answered(ch, holder, end):
    channel, leave = holder
    queue = ch.queue(durable=True, exclusive=False)
    for _ in range(200):
        channel.publish("", queue)
    leave(end)
    assert ch.ready(queue) == 200


@pytest.mark.parametrize("end", ALL)
def test_f026_an_exclusive_consumers_place_is_free_when_its_end_is_answered(ch, holder, end):
    channel, leave = holder
    queue = ch.queue(durable=True, exclusive=False)
    tag = channel.consume(queue, exclusive=True)
    leave(end, consumer_tag=tag)
    ch.consume(queue, exclusive=True)


@pytest.mark.parametrize("end", ALL)
def test_b070_a_consumer_is_not_counted_when_its_end_is_answered(ch, holder, end):
    channel, leave = holder
    queue = ch.queue(durable=True, exclusive=False)
    tag = channel.consume(queue)
    assert ch.consumers(queue) == 1
    leave(end, consumer_tag=tag)
    assert ch.consumers(queue) == 0


def test_b054_an_auto_delete_exchange_is_gone_when_the_unbind_is_answered(ch, ch2):
    for cause in ("unbind", "delete") * 4:
        exchange, queue = fresh("x"), ch.queue()
        ch.call("exchange.declare", exchange=exchange, type="fanout", auto_delete=True)
        ch.bind(queue, exchange)
        if cause == "unbind":
            ch.call("queue.unbind", queue=queue, exchange=exchange)
        else:
            ch.call("queue.delete", queue=queue)
        other = ch2.connection.channel()
        with other.closes(404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'", "exchange.declare"):
            other.call("exchange.declare", exchange=exchange, type="fanout", passive=True)


def test_b054_an_auto_delete_exchange_goes_with_the_connection_of_its_exclusive_queue(broker, ch, holder):
    if broker.flavor == "rabbitmq4":
        pytest.skip("4.3 leaves the exchange behind; 3.10 and a queue.delete take it along")
    channel, leave = holder
    exchange = fresh("x")
    channel.call("exchange.declare", exchange=exchange, type="fanout", auto_delete=True)
    channel.bind(channel.queue(), exchange)
    leave("connection.close-ok")
    with ch.closes(404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'", "exchange.declare"):
        ch.call("exchange.declare", exchange=exchange, type="fanout", passive=True)


def test_b109_others_see_a_transaction_when_its_commit_is_answered(ch, ch2):
    source, target = ch.queue(durable=True, exclusive=False), ch.queue(durable=True, exclusive=False)
    ch.put(source, *[b"m"] * 3)
    ch2.call("tx.select")
    for _ in range(3):
        ch2.ack(ch2.get(source).delivery_tag)
        ch2.publish("", target, b"done")
    assert ch.ready(target) == 0
    ch2.call("tx.commit")
    assert ch.ready(target) == 3


def test_b080_others_see_an_empty_queue_when_the_purge_is_answered(ch, ch2):
    queue = ch.queue(durable=True, exclusive=False)
    ch.put(queue, *[b"m"] * 50)
    assert ch2.call("queue.purge", queue=queue).message_count == 50
    assert ch.ready(queue) == 0


def test_b102_returns_come_before_the_answers_to_later_methods(ch):
    exchange = ch.exchange("fanout")
    for _ in range(20):
        ch.publish(exchange, "k", b"m", mandatory=True)
    ch.send("queue.declare", queue="", exclusive=True)
    assert [ch.next().name for _ in range(21)] == ["basic.return"] * 20 + ["queue.declare-ok"]


def test_b132_recover_is_answered_before_what_it_brings_back(ch):
    queue = ch.queue()
    ch.put(queue, b"one", b"two")
    ch.consume(queue)
    ch.deliver(b"one")
    ch.deliver(b"two")
    ch.send("basic.recover", requeue=True)
    ch.next("basic.recover-ok")
    assert [ch.deliver().body for _ in range(2)] == [b"one", b"two"]


def test_b117_a_consumer_of_a_full_queue_is_answered_first(ch):
    queue = ch.queue()
    ch.put(queue, *[b"m"] * 100)
    ch.send("basic.consume", queue=queue, consumer_tag="t", no_ack=True)
    assert [ch.next().name for _ in range(101)] == ["basic.consume-ok"] + ["basic.deliver"] * 100


def test_b105_confirms_are_not_lost_between_other_answers(ch):
    queue = ch.queue()
    ch.call("confirm.select")
    for _ in range(50):
        ch.publish("", queue)
        ch.send("queue.declare", queue=queue, passive=True)
    declared = [ch.answer("queue.declare-ok") for _ in range(50)]
    assert len(declared) == 50 and all(ch.confirms(50).values())


def test_b189_a_connection_that_dies_frees_its_names_soon(broker, ch):
    connection = broker.connect()
    name = fresh("q")
    connection.channel().call("queue.declare", queue=name, exclusive=True)
    connection.kill()

    def declared():
        other = broker.connect().channel()
        try:
            other.call("queue.declare", queue=name, exclusive=True)
        except client.ChannelClosed as closed:
            assert closed.code == 405
            return False
        return True

    client.eventually(declared)
