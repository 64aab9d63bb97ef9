"""The objects and the one connection that the listings show. Knows AMQP through pika, no command line."""

import pika


def connect(port):
    """Declares everything in vhost `shop` and keeps a connection with one channel and one consumer open."""
    parameters = pika.ConnectionParameters(
        "127.0.0.1", port, "shop", pika.PlainCredentials("guest", "guest"), heartbeat=600, client_properties={"connection_name": "till"})
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare("orders", durable=True, arguments={"x-dead-letter-exchange": "late", "x-max-length": 1000, "x-queue-type": "classic"})
    channel.exchange_declare("late", "topic", durable=True, arguments={"alternate-exchange": "amq.fanout"})
    channel.queue_bind("orders", "late", "order.#")
    channel.queue_bind("orders", "amq.headers", "", {"kind": "a", "n": 1, "x-match": "all"})
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=10)
    channel.basic_publish("", "orders", b"first", pika.BasicProperties(delivery_mode=2), mandatory=True)
    channel.basic_publish("", "orders", b"second", mandatory=True)
    channel.basic_consume("orders", lambda *_: None, consumer_tag="cook", arguments={"x-priority": 3})
    connection.process_data_events(0.3)          # both messages are delivered and stay unacknowledged
    return connection, channel


def more(client):
    """Two queues for the commands that delete: `busy` has a consumer, `full` has a message."""
    _, channel = client
    channel.queue_declare("busy", durable=True)
    channel.basic_consume("busy", lambda *_: None)
    channel.queue_declare("full", durable=True)
    channel.basic_publish("", "full", b"", mandatory=True)
