"""pika's SelectConnection: one thread, callbacks, nothing waited for. The shape of most long-running pika services."""

import collections
import time

import pika
import pytest

PERSISTENT = pika.BasicProperties(delivery_mode=2)


class Loop:
    """Runs an ioloop until something calls `done` or `fail`, or the deadline comes."""

    def __init__(self, url, on_channel, deadline_s=20):
        self.on_channel = on_channel
        self.failure, self.finished, self.closed_with = None, False, None
        self.connection = pika.SelectConnection(
            pika.URLParameters(url),
            on_open_callback=self._opened,
            on_open_error_callback=lambda _, error: self.fail(error),
            on_close_callback=self._closed)
        self.connection.ioloop.call_later(deadline_s, lambda: self.fail("deadline"))

    def _opened(self, connection):
        connection.channel(on_open_callback=lambda channel: self.on_channel(self, channel))

    def _closed(self, _, reason):
        self.closed_with = reason
        if not self.finished:
            self.fail(reason)
        self.connection.ioloop.stop()

    def done(self):
        self.finished = True
        self.connection.close()

    def fail(self, reason):
        if self.finished and reason == "deadline":
            return
        self.failure = self.failure or reason
        self.finished = True
        if self.connection.is_open:
            self.connection.close()
        else:
            self.connection.ioloop.stop()

    def run(self):
        self.connection.ioloop.start()
        assert self.failure is None, repr(self.failure)


def test_publish_with_confirms_and_consume_with_batched_acks(url, unique, durable):
    queue, count = durable.queue(unique("stream")), 2000
    outstanding, received, seen = set(), [], collections.Counter()

    def on_channel(loop, channel):
        def on_confirm(frame):
            method = frame.method
            seen[method.NAME] += 1
            tags = {tag for tag in outstanding if tag <= method.delivery_tag} if method.multiple else {method.delivery_tag}
            assert tags <= outstanding, "confirmed twice"
            outstanding.difference_update(tags)
            finish_if_all()

        def on_message(ch, method, properties, body):
            received.append(int(body))
            if len(received) % 100 == 0:
                ch.basic_ack(method.delivery_tag, multiple=True)
            finish_if_all()

        def finish_if_all():
            if len(received) == count and not outstanding:
                loop.done()

        def publish(_):
            for i in range(count):
                channel.basic_publish("", queue, b"%d" % i, PERSISTENT)
                outstanding.add(i + 1)

        def declared(_):
            channel.basic_qos(prefetch_count=300)
            channel.basic_consume(queue, on_message)
            channel.confirm_delivery(on_confirm, callback=publish)

        channel.queue_declare(queue, durable=True, callback=declared)

    Loop(url, on_channel).run()
    assert received == list(range(count))
    assert set(seen) == {"Basic.Ack"}
    with_nothing_left(url, queue)


def with_nothing_left(url, queue):
    connection = pika.BlockingConnection(pika.URLParameters(url))
    assert connection.channel().queue_declare(queue, passive=True).method.message_count == 0
    connection.close()


def test_return_comes_before_the_confirm(url, unique):
    order = []

    def on_channel(loop, channel):
        def on_return(ch, method, properties, body):
            order.append((method.reply_code, body))

        def on_confirm(frame):
            order.append(frame.method.NAME)
            loop.done()

        channel.add_on_return_callback(on_return)
        channel.confirm_delivery(on_confirm, callback=lambda _: channel.basic_publish("", unique("none"), b"x", mandatory=True))

    Loop(url, on_channel).run()
    assert order == [(312, b"x"), "Basic.Ack"]


def test_cancel_by_the_broker_and_by_us(url, unique, durable):
    queue, events = durable.queue(unique("doomed")), []

    def on_channel(loop, channel):
        def cancelled_by_broker(frame):
            events.append(frame.method.NAME)
            loop.done()

        def cancelled_by_us(frame):
            events.append(frame.method.NAME)
            channel.add_on_cancel_callback(cancelled_by_broker)
            channel.basic_consume(queue, lambda *_: None, callback=lambda _: channel.queue_delete(queue))

        def declared(_):
            tag = channel.basic_consume(queue, lambda *_: None,
                                        callback=lambda _: channel.basic_cancel(tag, callback=cancelled_by_us))

        channel.queue_declare(queue, durable=True, callback=declared)

    Loop(url, on_channel).run()
    assert events == ["Basic.CancelOk", "Basic.Cancel"]


def test_channel_error_leaves_the_connection_usable(url, unique):
    codes = []

    def on_channel(loop, channel):
        def closed(ch, reason):
            codes.append((reason.reply_code, reason.reply_text))
            loop.connection.channel(on_open_callback=lambda _: loop.done())

        channel.add_on_close_callback(closed)
        channel.queue_declare(unique("missing"), passive=True)

    Loop(url, on_channel).run()
    [(code, text)] = codes
    assert code == 404 and text == f"NOT_FOUND - no queue '{unique('missing')}' in vhost '/'"


def test_declarations_may_be_sent_without_waiting_for_replies(url, unique, durable):
    exchange, replies = durable.exchange(unique("many")), []

    def on_channel(loop, channel):
        def bound(_):
            replies.append("bound")
            if len(replies) == 300:
                channel.basic_publish(exchange, "key.77", b"")
                channel.basic_consume(names[77], lambda *_: loop.done(), auto_ack=True)

        # pika itself queues synchronous methods on one channel; several channels make the broker see them at once
        names = [unique(f"q{i}") for i in range(300)]
        channel.exchange_declare(exchange, "direct", callback=lambda _: [
            loop.connection.channel(on_open_callback=lambda ch, part=part: declare(ch, part)) for part in range(10)])

        def declare(ch, part):
            for i in range(part, 300, 10):
                ch.queue_declare(names[i], exclusive=True, callback=lambda _, ch=ch, i=i: ch.queue_bind(
                    names[i], exchange, f"key.{i}", callback=bound))

    Loop(url, on_channel).run()
    assert len(replies) == 300


@pytest.mark.timeout(90)
def test_reconnect_after_a_broker_restart(url, unique, durable, restart):
    """A consumer that reopens everything when its connection is lost, as pika's asynchronous consumer example does."""
    queue, got, restarting = durable.queue(unique("survivor")), [], []
    connections = []

    def on_channel(loop, channel):
        def declared(_):
            channel.basic_consume(queue, on_message)
            channel.basic_publish("", queue, b"life %d" % len(connections), PERSISTENT)

        def on_message(ch, method, properties, body):
            got.append(body)
            ch.basic_ack(method.delivery_tag)
            if len(connections) == 1:
                restarting.append(restart())
            else:
                loop.done()

        channel.queue_declare(queue, durable=True, callback=declared)

    for _ in range(300):
        connections.append(None)
        loop = Loop(url, on_channel, deadline_s=40)
        loop.connection.ioloop.start()
        if loop.failure is None:
            break
        if loop.closed_with is None:      # not reached the broker at all
            connections.pop()
            time.sleep(0.1)
    restarting[0].finished()
    assert got[0] == b"life 1" and got[-1] == b"life 2" and len(connections) == 2
