"""The examples of Qpid Proton for Python: messaging with its blocking and its reactive interface.

``python messaging.py HOST:PORT``: needs python-qpid-proton, pika and a broker.
"""

import sys
import threading
import uuid

import pika
import proton
from proton.handlers import MessagingHandler
from proton.reactor import AtMostOnce, Container, DynamicNodeProperties, ReceiverOption
from proton.utils import BlockingConnection, LinkDetached, SendException

COUNT = 100
WAIT_S = 20
PLAIN = {"allowed_mechs": "PLAIN", "user": "guest", "password": "guest"}


class TemporaryQueue(ReceiverOption):
    """Asks for a queue that goes with its link."""

    def apply(self, receiver):
        receiver.source.dynamic = True
        capabilities = proton.Array(proton.UNDESCRIBED, proton.Data.SYMBOL, proton.symbol("temporary-queue"))
        receiver.source.capabilities.put_object(capabilities)


class Ends(MessagingHandler):
    """A handler that does not wait for ever."""

    def __init__(self, place, **options):
        super().__init__(**options)
        self.place, self.timed_out, self.failures = place, False, []

    def on_start(self, event):
        self.timer = event.container.schedule(WAIT_S, self)
        self.connection = event.container.connect(self.place, **PLAIN)
        self.begin(event)

    def on_timer_task(self, _event):
        self.timed_out = True
        self.connection.close()

    def on_link_error(self, event):
        self.failures.append(event.link.remote_condition)
        self.end()

    def on_transport_error(self, event):
        self.failures.append(event.transport.condition)

    def end(self):
        self.timer.cancel()
        self.connection.close()

    def run(self):
        Container(self).run()
        assert not self.timed_out and not self.failures, (self.timed_out, self.failures)
        return self


class Send(Ends):
    """Sends as credit comes, and waits for all confirmations."""

    def __init__(self, place, queue, count):
        super().__init__(place)
        self.queue, self.count, self.sent, self.confirmed = queue, count, 0, 0

    def begin(self, event):
        event.container.create_sender(self.connection, self.queue)

    def on_sendable(self, event):
        while event.sender.credit and self.sent < self.count:
            self.sent += 1
            event.sender.send(proton.Message(id=self.sent, body={"sequence": self.sent}))

    def on_accepted(self, _event):
        self.confirmed += 1
        if self.confirmed == self.count:
            self.end()

    def on_settled(self, event):
        assert event.delivery.remote_state == proton.Delivery.ACCEPTED, event.delivery.remote_state


class SendSettled(Send):
    """Sends messages that nobody confirms."""

    def begin(self, event):
        event.container.create_sender(self.connection, self.queue, options=AtMostOnce())

    def on_sendable(self, event):
        super().on_sendable(event)
        if self.sent == self.count:
            self.end()


class Receive(Ends):
    """Receives so many, and accepts them as the handler does by itself."""

    def __init__(self, place, queue, count, prefetch=10):
        super().__init__(place, prefetch=prefetch)
        self.queue, self.count, self.bodies = queue, count, []

    def begin(self, event):
        event.container.create_receiver(self.connection, self.queue)

    def on_message(self, event):
        self.bodies.append(event.message.body)
        if len(self.bodies) == self.count:
            event.receiver.close()
            self.end()


class Serve(Ends):
    """Answers requests in capitals, over one link without an address."""

    def __init__(self, place, queue, count, ready):
        super().__init__(place)
        self.queue, self.left, self.ready = queue, count, ready

    def begin(self, event):
        self.receiver = event.container.create_receiver(self.connection, self.queue)
        self.sender = event.container.create_sender(self.connection, None)

    def on_link_opened(self, _event):
        self.ready.set()

    def on_message(self, event):
        request = event.message
        answer = proton.Message(address=request.reply_to, body=request.body.upper(), correlation_id=request.correlation_id)
        self.sender.send(answer)

    def on_accepted(self, event):
        if event.link == self.sender:
            self.left -= 1
            if not self.left:
                self.end()


class Ask(Ends):
    """Sends one request after the other, with a queue for replies that the broker names."""

    def __init__(self, place, queue, requests):
        super().__init__(place)
        self.queue, self.requests, self.answers = queue, requests, []

    def begin(self, event):
        self.sender = event.container.create_sender(self.connection, self.queue)
        options = [TemporaryQueue(), DynamicNodeProperties({})]
        self.receiver = event.container.create_receiver(self.connection, None, dynamic=True, options=options)

    def ask(self):
        request = self.requests[len(self.answers)]
        self.sender.send(proton.Message(reply_to=self.receiver.remote_source.address, body=request, correlation_id=len(self.answers)))

    def on_link_opened(self, event):
        if event.receiver == self.receiver:
            self.ask()

    def on_message(self, event):
        assert event.message.correlation_id == len(self.answers), event.message
        self.answers.append(event.message.body)
        if len(self.answers) == len(self.requests):
            self.end()
        else:
            self.ask()


def hello(place, queue):
    """One message, blocking."""
    connection = BlockingConnection(place, timeout=WAIT_S, **PLAIN)
    receiver = connection.create_receiver(queue)
    sender = connection.create_sender(queue)
    sender.send(proton.Message(body="Hello World!"))
    message = receiver.receive(timeout=WAIT_S)
    receiver.accept()
    assert message.body == "Hello World!", message
    connection.close()


def outcomes(place, queue):
    """A message is released, modified, rejected; what cannot be sent or reached is told."""
    connection = BlockingConnection(place, timeout=WAIT_S, **PLAIN)
    sender = connection.create_sender(queue)
    sender.send(proton.Message(body="again"))
    receiver = connection.create_receiver(queue, credit=1)
    for settle in (lambda: receiver.release(delivered=False), lambda: receiver.release(delivered=True), receiver.reject):
        assert receiver.receive(timeout=WAIT_S).body == "again"
        settle()
        receiver.flow(1)
    try:
        raise AssertionError(receiver.receive(timeout=0.5))
    except proton.Timeout:
        pass  # what is rejected is gone
    unroutable = connection.create_sender("/exchanges/amq.direct/nowhere")
    try:
        raise AssertionError(unroutable.send(proton.Message(body="lost")))
    except SendException as refusal:
        assert refusal.state == proton.Delivery.RELEASED, refusal.state
    try:
        raise AssertionError(connection.create_sender(f"/queues/{uuid.uuid4()}"))
    except LinkDetached as refusal:
        assert refusal.condition == "amqp:not-found", refusal.condition
    connection.close()


def send_and_receive(place, queue):
    """Many messages, not settled when they are sent, with windows of ten and of two; then settled ones."""
    expected = [{"sequence": nth + 1} for nth in range(COUNT)]
    for prefetch in (10, 2):
        assert Send(place, queue, COUNT).run().confirmed == COUNT
        assert Receive(place, queue, COUNT, prefetch=prefetch).run().bodies == expected
    SendSettled(place, queue, COUNT).run()
    assert Receive(place, queue, COUNT).run().bodies == expected


def ask_and_answer(place, queue):
    """Requests and their replies."""
    requests = ["Twas brillig", "and the slithy toves", "did gyre and gimble", "in the wabe"]
    ready = threading.Event()
    server = Serve(place, queue, len(requests), ready)
    thread = threading.Thread(target=server.run)
    thread.start()
    assert ready.wait(WAIT_S)
    asked = Ask(place, queue, requests).run()
    thread.join(WAIT_S)
    assert not thread.is_alive() and asked.answers == [request.upper() for request in requests], asked.answers


def large(place, queue):
    """A message of many frames passes unaltered."""
    connection = BlockingConnection(place, timeout=WAIT_S, **PLAIN)
    body = bytes(range(256)) * 8192
    connection.create_sender(queue).send(proton.Message(body=body, inferred=True, properties={"a": 1}))
    receiver = connection.create_receiver(queue)
    message = receiver.receive(timeout=WAIT_S)
    receiver.accept()
    assert bytes(message.body) == body and message.properties == {"a": 1}, len(message.body)
    connection.close()


def main(place):
    name = f"proton-{uuid.uuid4()}"
    blocking = pika.BlockingConnection(pika.URLParameters(f"amqp://guest:guest@{place}"))
    channel = blocking.channel()
    for scene in (hello, outcomes, send_and_receive, ask_and_answer, large):
        channel.queue_declare(name, durable=True)
        scene(place, f"/queues/{name}")
        left = channel.queue_declare(name, passive=True).method.message_count
        assert left == 0, f"{scene.__name__} leaves {left} messages"
        channel.queue_delete(name)
        print(f"{scene.__name__}: passed")
    blocking.close()


if __name__ == "__main__":
    main(sys.argv[1])
