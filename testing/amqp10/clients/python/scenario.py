"""The first steps of a user of RabbitMQ's client for AMQP 1.0 in Python: declares, binds, publishes, consumes, reads a stream with filters.

``python scenario.py URL``: needs rabbitmq-amqp-python-client and a broker.
"""

import sys
import uuid

from rabbitmq_amqp_python_client import (
    AddressHelper,
    AMQPMessagingHandler,
    Environment,
    ExchangeSpecification,
    ExchangeToQueueBindingSpecification,
    Message,
    OffsetSpecification,
    OutcomeState,
    QuorumQueueSpecification,
    StreamConsumerOptions,
    StreamFilterOptions,
    StreamSpecification,
)

from rabbitmq_amqp_python_client.qpid.proton._utils import SendException

COUNT = 50


class Enough(Exception):
    """Ends the client's loop."""


class Keeper(AMQPMessagingHandler):
    """Accepts so many messages."""

    def __init__(self, count):
        super().__init__()
        self.count, self.bodies, self.offsets = count, [], []

    def on_amqp_message(self, event):
        body = event.message.body
        self.bodies.append(bytes(body).decode() if isinstance(body, (bytes, memoryview)) else body)
        self.offsets.append((event.message.annotations or {}).get("x-stream-offset"))
        self.delivery_context.accept(event)
        if len(self.bodies) == self.count:
            raise Enough


def consume(connection, address, count, options=None):
    keeper = Keeper(count)
    consumer = connection.consumer(address, message_handler=keeper, consumer_options=options)
    try:
        consumer.run()
    except Enough:
        pass
    consumer.close()
    return keeper


def main(url):
    name = f"python-client-{uuid.uuid4()}"
    environment = Environment(uri=url)
    connection = environment.connection()
    connection.dial()
    management = connection.management()
    management.declare_exchange(ExchangeSpecification(name=name))
    management.declare_queue(QuorumQueueSpecification(name=name))
    binding = management.bind(
        ExchangeToQueueBindingSpecification(source_exchange=name, destination_queue=name, binding_key="k")
    )
    publisher = connection.publisher(AddressHelper.exchange_address(name, "k"))
    for nth in range(COUNT):
        assert publisher.publish(Message(body=f"m{nth}".encode())).remote_state == OutcomeState.ACCEPTED
    publisher.close()
    assert management.queue_info(name).message_count == COUNT
    got = consume(connection, AddressHelper.queue_address(name), COUNT)
    assert got.bodies == [f"m{nth}" for nth in range(COUNT)], got.bodies
    management.unbind(binding)
    unroutable = connection.publisher(AddressHelper.exchange_address(name, "k"))
    try:
        raise AssertionError(unroutable.publish(Message(body=b"x")).remote_state)
    except SendException as error:  # what the client makes of it
        assert str(error) == str(OutcomeState.RELEASED.value), error
    unroutable.close()
    management.purge_queue(name)
    management.delete_queue(name)
    management.delete_exchange(name)

    stream = f"{name}-stream"
    management.declare_queue(StreamSpecification(name=stream))
    publisher = connection.publisher(AddressHelper.queue_address(stream))
    for nth in range(COUNT):
        message = Message(body=f"s{nth}".encode(), subject="even" if nth % 2 == 0 else "odd")
        assert publisher.publish(message).remote_state == OutcomeState.ACCEPTED
    publisher.close()
    address = AddressHelper.queue_address(stream)
    options = StreamConsumerOptions(offset_specification=OffsetSpecification.first)
    got = consume(connection, address, COUNT, options)
    assert got.bodies == [f"s{nth}" for nth in range(COUNT)] and got.offsets == list(range(COUNT)), got.offsets
    options = StreamConsumerOptions(
        offset_specification=OffsetSpecification.first,
        filter_options=StreamFilterOptions(sql="properties.subject = 'odd'"),
    )
    got = consume(connection, address, COUNT // 2, options)
    assert got.bodies == [f"s{nth}" for nth in range(1, COUNT, 2)], got.bodies
    management.delete_queue(stream)
    management.close()
    environment.close()
    print("the scenario of the Python client passed")


if __name__ == "__main__":
    main(sys.argv[1])
