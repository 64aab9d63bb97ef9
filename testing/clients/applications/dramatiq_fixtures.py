"""What Dramatiq's tests of RabbitMQ import from `tests.common` and expect as fixtures. They name no port: pika's default port is ours."""

import os

import dramatiq
import pika
import pytest
from dramatiq.brokers.rabbitmq import RabbitmqBroker

pika.connection.Parameters.DEFAULT_PORT = int(os.environ["RABBITMQ_PORT"])
RABBITMQ_USERNAME = os.environ["RABBITMQ_USERNAME"]
RABBITMQ_PASSWORD = os.environ["RABBITMQ_PASSWORD"]
RABBITMQ_CREDENTIALS = pika.PlainCredentials(RABBITMQ_USERNAME, RABBITMQ_PASSWORD)


def skip_unless_rabbit_mq(test):
    """A broker that cannot be reached is a failure here."""
    return test


@pytest.fixture
def rabbitmq_broker():
    broker = RabbitmqBroker(host="127.0.0.1", max_priority=10, credentials=RABBITMQ_CREDENTIALS)
    broker.emit_after("process_boot")
    dramatiq.set_broker(broker)
    yield broker
    broker.flush_all()
    broker.close()


@pytest.fixture
def rabbitmq_worker(rabbitmq_broker):
    worker = dramatiq.Worker(rabbitmq_broker, worker_threads=32)
    worker.start()
    yield worker
    worker.stop()
