"""Where the broker is, unique names, and cleaning up. Knows nothing about any one client library.

AMQP_URL        the broker (default amqp://guest:guest@127.0.0.1:5672/%2F)
BROKER_FLAVOR   warren (default), rabbitmq3 or rabbitmq4: RabbitMQ 4.3 refuses transient non-exclusive queues and global prefetch
BROKER_RESTART  a shell command that restarts it on the same port and returns when it accepts again; the reconnect tests need it
"""

import os
import subprocess
import threading
import uuid

import pika
import pytest

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/%2F")


@pytest.fixture(scope="session")
def url():
    return URL


@pytest.fixture
def unique():
    """unique("work") -> a name that no other test, and no other run, uses."""
    run = uuid.uuid4().hex[:12]
    return lambda stem: f"py.{run}.{stem}"


@pytest.fixture
def durable(url):
    """Remembers what outlives a connection (queues, exchanges) and deletes it at the end, also after a failure."""

    class Remembered:
        def __init__(self):
            self.queues, self.exchanges = [], []

        def queue(self, name):
            self.queues.append(name)
            return name

        def exchange(self, name):
            self.exchanges.append(name)
            return name

    remembered = Remembered()
    yield remembered
    if not remembered.queues and not remembered.exchanges:
        return
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    for queue in remembered.queues:
        channel.queue_delete(queue)
    for exchange in remembered.exchanges:
        channel.exchange_delete(exchange)
    connection.close()


@pytest.fixture
def restart():
    """Restarts the broker in the background and returns the thread; skips, saying so, where nobody told us how to."""
    command = os.environ.get("BROKER_RESTART")
    if not command:
        pytest.skip("BROKER_RESTART is not set: reconnecting was NOT tested")

    class Restart(threading.Thread):
        def __init__(self):
            super().__init__(daemon=True)
            self.result = None

        def run(self):
            self.result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)

        def finished(self):
            self.join(60)
            assert self.result is not None, "the restart command hangs"
            assert self.result.returncode == 0, self.result.stdout + self.result.stderr

    def start():
        thread = Restart()
        thread.start()
        return thread

    return start


@pytest.fixture
def old_patterns():
    """For tests of what RabbitMQ 4.3 no longer permits and Warren does."""
    if os.environ.get("BROKER_FLAVOR", "warren") == "rabbitmq4":
        pytest.skip("RabbitMQ 4.3 refuses transient non-exclusive queues and global prefetch by default")
