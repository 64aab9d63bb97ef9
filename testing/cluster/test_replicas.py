"""Quorum queues on three real nodes: confirmed messages outlive the leader, consumers stay, a member that comes back gets what it lacks."""

import contextlib
import threading
import time

import pika
import pytest

from nodes import eventually
from test_queues import PERSISTENT, connected, ready

QUORUM = {"x-queue-type": "quorum"}


def declare(node, queue, **arguments):
    with connected(node) as connection:
        connection.channel().queue_declare(queue, durable=True, arguments={**QUORUM, **arguments})


def publish(node, queue, bodies):
    """Publishes with confirms: each is confirmed before the next is sent."""
    with connected(node) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish("", queue, body, PERSISTENT, mandatory=True)


def drain(node, queue, deadline_s=20):
    """All messages of a queue, acked, in order; until none is left."""
    bodies = []
    with connected(node) as connection:
        channel = connection.channel()
        end = time.monotonic() + deadline_s
        while time.monotonic() < end:
            method, _, body = channel.basic_get(queue)
            if method is None:
                return bodies
            bodies.append(body)
            channel.basic_ack(method.delivery_tag)
    raise AssertionError("messages do not end")


def leader_of(three, queue):
    """The node that leads, by a question to a node that is alive."""
    import json

    node = next(node for node in three.nodes if node.pid and node.alive())
    code, out, err = node.ctl("list_queues", "name", "leader", "online", "members", "--formatter", "json")
    assert code == 0, out + err
    row = next(row for row in json.loads(out) if row["name"] == queue)
    return next(node for node in three.nodes if node.name == row["leader"])


def numbered(count, start=0):
    return [str(nth).encode() for nth in range(start, start + count)]


def test_confirmed_messages_outlive_the_leader(three):
    a, b, c = three.nodes
    declare(a, "q")
    publish(b, "q", numbered(200))
    a.kill()
    eventually(lambda: answers(lambda: ready(b, "q") == 200 and ready(c, "q") == 200), "the queue is used without its first leader")
    publish(c, "q", numbered(100, 200))
    a.start()
    assert drain(b, "q") == numbered(300)


def test_a_member_that_comes_back_gets_what_it_lacks(three):
    a, b, c = three.nodes
    declare(a, "q")
    publish(a, "q", numbered(50))
    c.kill()
    publish(a, "q", numbered(300, 50))
    c.start()
    three.wait(three.nodes)
    eventually(lambda: answers(lambda: ready(c, "q") == 350), "it is a member again")
    time.sleep(3)
    # Now c counts: without a it is one of the two that have everything.
    a.kill()
    eventually(lambda: answers(lambda: ready(c, "q") == 350), "others lead")
    publish(c, "q", numbered(10, 350))
    b.kill()
    a.start()
    eventually(lambda: answers(lambda: ready(c, "q") == 360), "c or a leads")
    assert drain(a, "q") == numbered(360)


def answers(question):
    """Whether a question to a node was answered with yes: refusals are no."""
    try:
        return question()
    except (pika.exceptions.AMQPError, AssertionError, OSError):
        return False


def test_consumers_stay_while_the_leader_is_killed(three):
    a, b, c = three.nodes
    declare(a, "q")
    seen, stop = [], threading.Event()
    cancelled = []

    def consume():
        with connected(b) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=50)
            channel.add_on_cancel_callback(cancelled.append)

            def take(channel, method, _, body):
                seen.append(body)
                channel.basic_ack(method.delivery_tag)

            channel.basic_consume("q", take)
            while not stop.is_set():
                connection.process_data_events(time_limit=0.1)

    consumer = threading.Thread(target=consume)
    consumer.start()
    try:
        publish(c, "q", numbered(200))
        eventually(lambda: len(set(seen)) == 200, "all are delivered")
        a.kill()
        publish(c, "q", numbered(200, 200))
        eventually(lambda: len(set(seen)) == 400, "the consumer goes on with the next leader")
        assert not cancelled
    finally:
        stop.set()
        consumer.join()


def test_publishing_through_kills_of_leaders_loses_nothing(three):
    """A publisher on one node, while the leader is killed and started again, three times."""
    a, b, c = three.nodes
    declare(b, "q")
    confirmed, stop = [], threading.Event()

    def load():
        nth = 0
        while not stop.is_set():
            with contextlib.suppress(pika.exceptions.AMQPError, OSError):
                with connected(c) as connection:
                    channel = connection.channel()
                    channel.confirm_delivery()
                    while not stop.is_set():
                        body = str(nth).encode()
                        nth += 1
                        with contextlib.suppress(pika.exceptions.NackError):
                            channel.basic_publish("", "q", body, PERSISTENT, mandatory=True)
                            confirmed.append(body)

    publisher = threading.Thread(target=load)
    publisher.start()
    try:
        for victim in (b, a, b):
            time.sleep(1.5)
            victim.kill()
            before = len(confirmed)
            eventually(lambda: len(confirmed) > before + 20, "publishes are confirmed again")
            victim.start()
            three.wait(three.nodes)
            time.sleep(2)
    finally:
        stop.set()
        publisher.join()
    left = drain(a, "q", 120)
    assert len(confirmed) > 100
    assert not set(confirmed) - set(left), "confirmed and lost"
