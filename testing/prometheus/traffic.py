"""Something for every counter to count: one connection that publishes, consumes, gets and acks. Leaves nothing behind."""

import contextlib

import pika

EXCHANGE, QUEUE = "prometheus-test-x", "prometheus-test-q"


@contextlib.contextmanager
def traffic(url):
    """While this is open there are a connection, a channel with a consumer, a queue and an exchange with traffic."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare(EXCHANGE, "direct", durable=True)
    channel.queue_declare(QUEUE, durable=True)
    try:
        channel.queue_bind(QUEUE, EXCHANGE, "key")
        for _ in range(4):
            channel.basic_publish(EXCHANGE, "key", b"x" * 200, pika.BasicProperties(delivery_mode=2))
        channel.basic_publish(EXCHANGE, "nowhere", b"dropped")
        with contextlib.suppress(pika.exceptions.UnroutableError):
            channel.basic_publish(EXCHANGE, "nowhere", b"returned", mandatory=True)
        channel.basic_get(QUEUE, auto_ack=True)
        got, _, _ = channel.basic_get(QUEUE)
        channel.basic_reject(got.delivery_tag, requeue=True)
        got, _, _ = channel.basic_get(QUEUE)
        channel.basic_ack(got.delivery_tag)
        channel.basic_qos(prefetch_count=10)
        tags = []
        channel.basic_consume(QUEUE, lambda ch, method, properties, body: tags.append(method.delivery_tag))
        while len(tags) < 2:
            connection.process_data_events(1)
        channel.basic_ack(tags[0])
        connection.process_data_events(0)
        other = connection.channel()
        other.queue_declare(QUEUE, durable=True, passive=True)
        other.queue_declare("", exclusive=True)
        yield connection
    finally:
        channel.queue_delete(QUEUE)
        channel.exchange_delete(EXCHANGE)
        connection.close()
