"""pika's BlockingConnection: the RabbitMQ tutorials' patterns, then what applications meet when things go wrong."""

import datetime
import decimal
import hashlib
import os
import threading
import time

import pika
import pytest
from pika.exceptions import (AMQPConnectionError, AMQPError, ChannelClosedByBroker, ConnectionClosedByBroker, NackError,
                             UnroutableError)

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def connect(url):
    opened = []

    def open_connection(**overrides):
        parameters = pika.URLParameters(url)
        for name, value in overrides.items():
            setattr(parameters, name, value)
        opened.append(pika.BlockingConnection(parameters))
        return opened[-1]

    yield open_connection
    for connection in opened:
        if connection.is_open:
            connection.close()


@pytest.fixture
def channel(connect):
    return connect().channel()


def collect(channel, queue, count, deadline_s=15, auto_ack=True):
    """(method, properties, body) of the next `count` messages, or fewer when the deadline comes first."""
    got, end = [], time.monotonic() + deadline_s
    for method, properties, body in channel.consume(queue, auto_ack=auto_ack, inactivity_timeout=0.2):
        if method is not None:
            got.append((method, properties, body))
        if len(got) == count or time.monotonic() > end:
            break
    channel.cancel()
    return got


def bodies(messages):
    return [body for _, _, body in messages]


def exclusive_queue(channel, arguments=None):
    return channel.queue_declare("", exclusive=True, arguments=arguments).method.queue


# ---- the tutorials


def test_hello_world(channel):
    queue = exclusive_queue(channel)
    assert queue.startswith("amq.gen-")
    channel.basic_publish("", queue, b"Hello World!")
    [(method, properties, body)] = collect(channel, queue, 1)
    assert body == b"Hello World!"
    assert (method.exchange, method.routing_key, method.redelivered) == ("", queue, False)
    assert properties.headers is None and properties.delivery_mode is None


def test_work_queue_gives_the_next_task_to_whoever_is_free(connect, unique, durable):
    queue = durable.queue(unique("tasks"))
    publisher = connect().channel()
    publisher.queue_declare(queue, durable=True)
    publisher.confirm_delivery()

    slow, fast = connect().channel(), connect().channel()
    slow_got, fast_got = [], []
    for worker in (slow, fast):
        worker.basic_qos(prefetch_count=1)
    slow.basic_consume(queue, lambda ch, method, props, body: slow_got.append(method.delivery_tag))

    def done_at_once(ch, method, props, body):
        fast_got.append(body)
        ch.basic_ack(method.delivery_tag)

    fast.basic_consume(queue, done_at_once)
    for i in range(10):
        publisher.basic_publish("", queue, b"task %d" % i, PERSISTENT, mandatory=True)
    end = time.monotonic() + 10
    while len(fast_got) < 9 and time.monotonic() < end:
        fast.connection.process_data_events(0.05)
        slow.connection.process_data_events(0)
    assert len(slow_got) == 1, "prefetch 1: a worker that does not ack gets one task"
    assert len(fast_got) == 9
    slow.basic_ack(slow_got[0])
    slow.connection.process_data_events(0.1)
    assert publisher.queue_declare(queue, passive=True).method.message_count == 0


def test_work_of_a_dead_worker_is_redelivered(connect, unique, durable):
    queue = durable.queue(unique("tasks"))
    publisher = connect().channel()
    publisher.queue_declare(queue, durable=True)
    for i in range(3):
        publisher.basic_publish("", queue, b"task %d" % i, PERSISTENT)
    dying = connect()
    assert len(collect_without_ack(dying.channel(), queue, 3)) == 3
    dying.close()
    again = collect(connect().channel(), queue, 3)
    assert bodies(again) == [b"task 0", b"task 1", b"task 2"]
    assert all(method.redelivered for method, _, _ in again)


def collect_without_ack(channel, queue, count):
    got = []
    channel.basic_consume(queue, lambda ch, method, props, body: got.append(body))
    end = time.monotonic() + 10
    while len(got) < count and time.monotonic() < end:
        channel.connection.process_data_events(0.05)
    return got


def test_publish_subscribe(connect, unique, durable):
    exchange = durable.exchange(unique("logs"))
    publisher = connect().channel()
    publisher.exchange_declare(exchange, exchange_type="fanout")
    subscribers = [connect().channel() for _ in range(3)]
    queues = [exclusive_queue(s) for s in subscribers]
    for subscriber, queue in zip(subscribers, queues):
        subscriber.queue_bind(queue, exchange)
    publisher.basic_publish(exchange, "ignored", b"info: hello")
    for subscriber, queue in zip(subscribers, queues):
        assert bodies(collect(subscriber, queue, 1)) == [b"info: hello"]


def test_routing(channel, unique, durable):
    exchange = durable.exchange(unique("direct_logs"))
    channel.exchange_declare(exchange, exchange_type="direct")
    everything, errors = exclusive_queue(channel), exclusive_queue(channel)
    for severity in ("info", "warning", "error"):
        channel.queue_bind(everything, exchange, severity)
    channel.queue_bind(errors, exchange, "error")
    for severity in ("info", "warning", "error", "nobody"):
        channel.basic_publish(exchange, severity, severity.encode())
    assert bodies(collect(channel, everything, 3)) == [b"info", b"warning", b"error"]
    assert bodies(collect(channel, errors, 1)) == [b"error"]
    assert channel.queue_declare(everything, passive=True).method.message_count == 0


@pytest.mark.parametrize("pattern, expected", [
    ("*.orange.*", ["quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox"]),
    ("*.*.rabbit", ["quick.orange.rabbit", "lazy.pink.rabbit"]),
    ("lazy.#", ["lazy.orange.elephant", "lazy.brown.fox", "lazy.pink.rabbit", "lazy.new.male.rabbit", "lazy"]),
    ("#.rabbit", ["quick.orange.rabbit", "lazy.pink.rabbit", "quick.orange.new.rabbit", "lazy.new.male.rabbit"]),
    ("#", None),
    ("*", ["lazy", "orange"]),
])
def test_topics(channel, unique, durable, pattern, expected):
    exchange = durable.exchange(unique("topic_logs"))
    channel.exchange_declare(exchange, exchange_type="topic")
    queue = exclusive_queue(channel)
    channel.queue_bind(queue, exchange, pattern)
    keys = ["quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox", "lazy.brown.fox", "lazy.pink.rabbit",
            "quick.brown.fox", "orange", "quick.orange.new.rabbit", "lazy.new.male.rabbit", "lazy", ""]
    for key in keys:
        channel.basic_publish(exchange, key, key.encode())
    wanted = keys if expected is None else expected
    got = bodies(collect(channel, queue, len(wanted)))
    assert sorted(got) == sorted(key.encode() for key in wanted)
    assert channel.queue_declare(queue, passive=True).method.message_count == 0


def test_rpc_with_a_reply_queue(connect, unique, durable):
    queue = durable.queue(unique("rpc"))
    client = connect().channel()
    client.queue_declare(queue, durable=True)
    serving = serve_fibonacci(connect(), queue, calls=3)
    replies = exclusive_queue(client)
    for n, expected in ((1, b"1"), (10, b"55"), (30, b"832040")):
        client.basic_publish("", queue, b"%d" % n, pika.BasicProperties(reply_to=replies, correlation_id=f"c{n}"))
        [(_, properties, body)] = collect(client, replies, 1)
        assert (properties.correlation_id, body) == (f"c{n}", expected)
    serving.join(10)
    assert not serving.is_alive()


def test_rpc_with_direct_reply_to(connect, unique, durable):
    queue = durable.queue(unique("rpc"))
    client = connect().channel()
    client.queue_declare(queue, durable=True)
    serving = serve_fibonacci(connect(), queue, calls=20)
    got = {}
    client.basic_consume("amq.rabbitmq.reply-to", lambda ch, m, props, body: got.update({props.correlation_id: body}), auto_ack=True)
    for n in range(20):
        properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id=str(n))
        client.basic_publish("", queue, b"%d" % n, properties)
    end = time.monotonic() + 15
    while len(got) < 20 and time.monotonic() < end:
        client.connection.process_data_events(0.05)
    assert got == {str(n): b"%d" % fibonacci(n) for n in range(20)}
    serving.join(10)


def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def serve_fibonacci(connection, queue, calls):
    """A server on a connection and a thread of its own, which ends after so many calls."""

    def serve():
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1)
        served = 0
        for method, properties, body in channel.consume(queue, inactivity_timeout=10):
            if method is None:
                break
            assert properties.reply_to != "amq.rabbitmq.reply-to", "the broker must replace the pseudo-queue's name"
            answer = pika.BasicProperties(correlation_id=properties.correlation_id)
            channel.basic_publish("", properties.reply_to, b"%d" % fibonacci(int(body)), answer)
            channel.basic_ack(method.delivery_tag)
            served += 1
            if served == calls:
                break
        channel.cancel()
        connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def test_publisher_confirms_one_by_one(channel, unique, durable):
    queue = durable.queue(unique("confirms"))
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    for i in range(100):
        channel.basic_publish("", queue, b"%d" % i, PERSISTENT)   # returns once confirmed, raises on nack
    assert channel.queue_declare(queue, passive=True).method.message_count == 100


# ---- what happens when things go wrong


def test_unroutable_mandatory_message_comes_back(channel, unique):
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as raised:
        channel.basic_publish("", unique("nowhere"), b"lost?", pika.BasicProperties(message_id="m1"), mandatory=True)
    [returned] = raised.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.body, returned.properties.message_id) == (b"lost?", "m1")
    channel.basic_publish("", unique("nowhere"), b"not mandatory: dropped, and confirmed")


def test_full_queue_that_rejects_publishes_nacks(channel):
    queue = exclusive_queue(channel, {"x-max-length": 2, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"1")
    channel.basic_publish("", queue, b"2")
    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"3")
    assert bodies(collect(channel, queue, 2)) == [b"1", b"2"]


def test_full_queue_drops_its_head_by_default(channel):
    queue = exclusive_queue(channel, {"x-max-length": 3})
    for i in range(10):
        channel.basic_publish("", queue, b"%d" % i)
    assert bodies(collect(channel, queue, 3)) == [b"7", b"8", b"9"]


def test_consumer_is_told_when_its_queue_is_deleted(connect, unique, durable):
    queue = durable.queue(unique("doomed"))
    consumer = connect().channel()
    consumer.queue_declare(queue, durable=True)
    cancelled = []
    consumer.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = consumer.basic_consume(queue, lambda *_: None)
    assert connect().channel().queue_delete(queue).method.message_count == 0
    end = time.monotonic() + 10
    while not cancelled and time.monotonic() < end:
        consumer.connection.process_data_events(0.05)
    assert cancelled == [tag]
    assert consumer.is_open


def test_priorities(channel):
    queue = exclusive_queue(channel, {"x-max-priority": 10})
    for priority in (0, 5, 1, 9, None, 5, 200):
        channel.basic_publish("", queue, str(priority).encode(), pika.BasicProperties(priority=priority))
    assert bodies(collect(channel, queue, 7)) == [b"200", b"9", b"5", b"5", b"1", b"0", b"None"]


def test_expired_message_is_dead_lettered(channel, unique, durable):
    dlx = durable.exchange(unique("dlx"))
    channel.exchange_declare(dlx, exchange_type="topic")
    graveyard = exclusive_queue(channel)
    channel.queue_bind(graveyard, dlx, "#")
    queue = exclusive_queue(channel, {"x-message-ttl": 100, "x-dead-letter-exchange": dlx})
    channel.basic_publish("", queue, b"by queue", pika.BasicProperties(headers={"mine": 1}))
    channel.basic_publish("", queue, b"by message", pika.BasicProperties(expiration="20"))
    got = collect(channel, graveyard, 2)
    assert sorted(bodies(got)) == [b"by message", b"by queue"]
    for method, properties, body in got:
        [death] = properties.headers["x-death"]
        assert (death["count"], death["reason"], death["queue"], death["exchange"]) == (1, "expired", queue, "")
        assert death["routing-keys"] == [queue]
        assert isinstance(death["time"], datetime.datetime)
        assert properties.headers["x-first-death-reason"] == "expired"
        assert properties.expiration is None
        if body == b"by message":
            assert death["original-expiration"] == "20"
        else:
            assert properties.headers["mine"] == 1


def test_rejected_message_is_dead_lettered_with_the_key_that_the_queue_says(channel):
    graveyard = exclusive_queue(channel)
    queue = exclusive_queue(channel, {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": graveyard})
    channel.basic_publish("", queue, b"bad")
    method, _, _ = poll_get(channel, queue)
    channel.basic_nack(method.delivery_tag, requeue=False)
    [(method, properties, body)] = collect(channel, graveyard, 1)
    assert (body, method.routing_key) == (b"bad", graveyard)
    assert properties.headers["x-death"][0]["reason"] == "rejected"


def poll_get(channel, queue, deadline_s=5):
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        got = channel.basic_get(queue)
        if got[0] is not None:
            return got
    raise AssertionError(f"nothing came to {queue}")


def test_large_message_survives_byte_for_byte(channel):
    queue = exclusive_queue(channel)
    body = os.urandom(10 * 1024 * 1024)
    channel.basic_publish("", queue, body)
    [(_, _, got)] = collect(channel, queue, 1, deadline_s=30)
    assert hashlib.sha256(got).digest() == hashlib.sha256(body).digest()


def test_empty_message(channel):
    queue = exclusive_queue(channel)
    channel.basic_publish("", queue, b"")
    assert bodies(collect(channel, queue, 1)) == [b""]


def test_header_values_of_all_types_that_pika_knows_round_trip(channel):
    headers = {
        "bool true": True, "bool false": False, "byte": 7, "negative": -3, "int16": 30_000, "int32": -2_000_000_000,
        "int64": 9_000_000_000_000_000_000, "decimal": decimal.Decimal("3.14"), "text": "Grüße, 世界",
        "bytes": b"\x00\xff\x80", "time": datetime.datetime(2026, 2, 3, 4, 5, 6, tzinfo=datetime.timezone.utc), "void": None,
        "table": {"nested": {"deeper": [1, "two", {"three": 3}]}, "empty": {}}, "array": [1, "a", True, None, [2, [3]]],
        "empty array": [], "empty text": "", "long text": "x" * 10_000,
    }
    queue = exclusive_queue(channel)
    sent = pika.BasicProperties(content_type="application/json", content_encoding="utf-8", headers=headers, delivery_mode=1, priority=3,
                                correlation_id="c", reply_to="r", expiration="60000", message_id="m", timestamp=1_700_000_000, type="t",
                                app_id="a", cluster_id="k")
    channel.basic_publish("", queue, b"body", sent)
    [(_, got, _)] = collect(channel, queue, 1)
    assert got.headers == headers
    if os.environ.get("BROKER_FLAVOR") != "rabbitmq4":   # which sorts them
        assert list(got.headers) == list(headers), "the order of the fields is kept"
    sent.headers = got.headers = None
    assert got == sent


def test_validated_user_id(channel, url):
    queue = exclusive_queue(channel)
    user = pika.URLParameters(url).credentials.username
    channel.basic_publish("", queue, b"me", pika.BasicProperties(user_id=user))
    assert collect(channel, queue, 1)[0][1].user_id == user
    channel.basic_publish("", queue, b"not me", pika.BasicProperties(user_id="somebody"))
    with pytest.raises(ChannelClosedByBroker) as raised:
        channel.connection.process_data_events(1)
        channel.queue_declare(queue, passive=True)
    assert raised.value.reply_code == 406
    assert raised.value.reply_text == f"PRECONDITION_FAILED - user_id property set to 'somebody' but authenticated user was '{user}'"


def test_many_channels_of_one_connection(connect):
    connection = connect()
    channels = [connection.channel() for _ in range(200)]
    queues = [exclusive_queue(ch) for ch in channels]
    for ch, queue in zip(channels, reversed(queues)):
        ch.basic_publish("", queue, queue.encode())
    for ch, queue in zip(channels, queues):
        _, _, body = poll_get(ch, queue)
        assert body == queue.encode()
    for ch in channels:
        ch.close()
    assert connection.channel().is_open


def test_missing_queue_closes_the_channel_only(connect, unique):
    connection, name = connect(), unique("missing")
    with pytest.raises(ChannelClosedByBroker) as raised:
        connection.channel().queue_declare(name, passive=True)
    assert raised.value.reply_code == 404
    assert raised.value.reply_text == f"NOT_FOUND - no queue '{name}' in vhost '/'"
    assert connection.is_open
    assert connection.channel().is_open


def test_publishing_to_a_missing_exchange_closes_the_channel(channel, unique):
    exchange = unique("missing")
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as raised:
        channel.basic_publish(exchange, "k", b"")
    assert raised.value.reply_code == 404
    assert raised.value.reply_text == f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"


def test_redeclaring_with_another_property_is_refused(connect, unique, durable):
    queue, connection = durable.queue(unique("inequivalent")), connect()
    connection.channel().queue_declare(queue, durable=True)
    with pytest.raises(ChannelClosedByBroker) as raised:
        connection.channel().queue_declare(queue, durable=True, auto_delete=True)
    assert raised.value.reply_code == 406
    assert raised.value.reply_text == (f"PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue '{queue}' in vhost '/': "
                                       "received 'true' but current is 'false'")
    with pytest.raises(ChannelClosedByBroker) as raised:
        connection.channel().queue_declare(queue, durable=True, arguments={"x-max-length": 5})
    assert raised.value.reply_text == (f"PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue '{queue}' in vhost '/': "
                                       "received the value '5' of type 'signedint' but current is none")


def test_exclusive_queue_of_another_connection_is_locked(connect):
    queue = exclusive_queue(connect().channel())
    with pytest.raises(ChannelClosedByBroker) as raised:
        connect().channel().basic_get(queue)
    assert raised.value.reply_code == 405
    assert raised.value.reply_text.startswith(f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'.")


def test_double_ack_closes_the_channel(channel):
    queue = exclusive_queue(channel)
    channel.basic_publish("", queue, b"once")
    method, _, _ = poll_get(channel, queue)
    channel.basic_ack(method.delivery_tag)
    channel.basic_ack(method.delivery_tag)
    with pytest.raises(ChannelClosedByBroker) as raised:
        channel.queue_declare(queue, passive=True)
    assert raised.value.args == (406, "PRECONDITION_FAILED - unknown delivery tag 1")


def test_immediate_flag_closes_the_connection(connect):
    from pika import spec
    connection = connect()
    channel = connection.channel()
    impl = channel._impl
    impl._send_method(spec.Basic.Publish(exchange="", routing_key="x", immediate=True), (pika.BasicProperties(), b""))
    with pytest.raises(ConnectionClosedByBroker) as raised:
        for _ in range(50):
            connection.process_data_events(0.1)
    assert raised.value.args == (540, "NOT_IMPLEMENTED - immediate=true")


def test_wrong_password_is_refused(url):
    parameters = pika.URLParameters(url)
    parameters.credentials = pika.PlainCredentials(parameters.credentials.username, "wrong")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError) as raised:
        pika.BlockingConnection(parameters)
    assert "(403)" in str(raised.value)
    assert "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile." in str(raised.value)


def test_missing_vhost_is_refused(url):
    parameters = pika.URLParameters(url)
    parameters.virtual_host = "no such vhost"
    with pytest.raises(AMQPConnectionError) as raised:
        pika.BlockingConnection(parameters)
    assert "NOT_ALLOWED - vhost no such vhost not found" in str(raised.value.args) + repr(raised.value)


def test_transaction_commits_and_rolls_back(channel):
    queue = exclusive_queue(channel)
    channel.tx_select()
    channel.basic_publish("", queue, b"rolled back")
    channel.tx_rollback()
    channel.basic_publish("", queue, b"committed")
    assert channel.queue_declare(queue, passive=True).method.message_count == 0
    channel.tx_commit()
    assert bodies(collect(channel, queue, 1)) == [b"committed"]
    channel.tx_commit()


def test_heartbeats_keep_a_silent_connection_open(connect):
    connection = connect(heartbeat=1)
    end = time.monotonic() + 3.5
    while time.monotonic() < end:
        connection.process_data_events(0.2)
    assert exclusive_queue(connection.channel())


def test_reconnect_after_a_broker_restart(connect, url, unique, durable, restart):
    queue = durable.queue(unique("survivor"))
    connection = connect()
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"before", PERSISTENT)
    restarting = restart()
    with pytest.raises(AMQPError):
        for _ in range(300):
            connection.process_data_events(0.1)
    end = time.monotonic() + 45
    while True:
        try:
            channel = connect().channel()
            break
        except AMQPConnectionError:
            assert time.monotonic() < end
            time.sleep(0.1)
    restarting.finished()
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"after", PERSISTENT)
    assert bodies(collect(channel, queue, 2)) == [b"before", b"after"]
