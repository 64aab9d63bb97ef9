"""The broker as an application of the process: stop_app, start_app and reset, with the texts of RabbitMQ 4.3."""

import pathlib
import sys

import pika
import pytest
from nodes import eventually, free_port, ok, refused

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "crash"))

from warren import LISTEN, Warren  # noqa: E402

STOPPED = "Error: this command requires the 'rabbit' app to be stopped on the target node. Stop it with 'rabbitmqctl stop_app'."
RUNNING = "Error: this command requires the 'rabbit' app to be running on the target node. Start it with 'rabbitmqctl start_app'."


@pytest.fixture
def alone(binary, tmp_path):
    server = Warren(binary, tmp_path, "prometheus.tcp.listener = none\n", (*LISTEN, "--management-listen", "none"))
    server.port = free_port()
    server.start()
    yield server
    if server.alive():
        server.kill()


def connect(node):
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    channel.confirm_delivery()
    return connection, channel


def publish(channel, nth):
    channel.basic_publish("", "paid", b"%d" % nth, pika.BasicProperties(delivery_mode=2), mandatory=True)


def test_the_broker_is_closed_and_opened_and_keeps_what_was_confirmed(alone):
    connection, channel = connect(alone)
    channel.queue_declare("paid", durable=True)
    publish(channel, 0)
    assert ok(alone, "stop_app") == "Stopping rabbit application on node warren@localhost ...\n"
    with pytest.raises(pika.exceptions.AMQPError):
        publish(channel, 1)
    assert connection.is_closed
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connect(alone)
    ok(alone, "stop_app")
    assert ok(alone, "start_app") == "Starting node warren@localhost ...\n"
    ok(alone, "start_app")
    for nth in range(1, 4):
        connection, channel = connect(alone)
        publish(channel, nth)
        ok(alone, "stop_app")
        ok(alone, "start_app")
    _, channel = connect(alone)
    bodies = [channel.basic_get("paid", auto_ack=True)[2] for _ in range(4)]
    assert bodies == [b"0", b"1", b"2", b"3"]
    assert alone.alive()


def test_a_stopped_node_answers_as_rabbitmq_does(alone):
    assert refused(alone, "reset") == (64, STOPPED)
    assert refused(alone, "force_reset") == (64, STOPPED)
    assert refused(alone, "force_boot") == (64, STOPPED)
    ok(alone, "await_startup", "--timeout", "5")
    ok(alone, "stop_app")
    for command in ["status"], ["list_queues"], ["cluster_status"], ["add_user", "a", "b"]:
        assert refused(alone, *command) == (64, RUNNING), command
    assert "Ping succeeded" in ok(alone, "ping")
    down = "RabbitMQ on node warren@localhost is not running or has not fully booted yet (check with is_booting)"
    assert down in ok(alone, "is_running")
    assert refused(alone, "check_running") == (69, f"Error:\n{down}\n")
    assert refused(alone, "await_startup", "--timeout", "5") == (69, "Error:\nrabbit_is_not_running\n")
    assert refused(alone, "wait", "--pid", str(alone.pid), "--timeout", "1")[0] == 75
    ok(alone, "start_app")
    ok(alone, "await_startup", "--timeout", "5")
    ok(alone, "wait", "--pid", str(alone.pid), "--timeout", "5")


def test_reset_deletes_all_and_the_node_starts_as_a_new_one(alone):
    _, channel = connect(alone)
    channel.queue_declare("paid", durable=True)
    publish(channel, 0)
    ok(alone, "add_vhost", "shop")
    ok(alone, "stop_app")
    assert ok(alone, "reset") == "Resetting node warren@localhost ...\n"
    ok(alone, "reset")
    ok(alone, "start_app")
    assert ok(alone, "-q", "list_vhosts").splitlines() == ["name", "/"]
    _, channel = connect(alone)
    assert channel.queue_declare("paid", durable=True).method.message_count == 0


def test_a_process_whose_broker_is_stopped_ends_in_order(alone):
    ok(alone, "stop_app")
    ok(alone, "stop")
    eventually(lambda: not alone.alive(), "the process has ended")
    alone.start()
    ok(alone, "stop_app")
    alone.stop()
    alone.start()
    assert "fully booted and running" in ok(alone, "is_running")
