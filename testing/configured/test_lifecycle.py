"""Clients' view when the broker stops, starts and dies: B28, B190, and the visible part of F71 and F209."""

import re
import signal
import socket

import client
import pytest


def stop(server):
    """SIGTERM, without waiting for the end."""
    server.process.child.send_signal(signal.SIGTERM)


def test_b028_a_shutdown_closes_connections_with_320(server):
    broker = server()
    connections = [broker.connect() for _ in range(3)]
    stop(broker)
    for connection in connections:
        text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        with connection.closes(320, text):
            connection.wait()
        connection.close()
    assert broker.process.child.wait(15) == 0


def test_b028_a_client_that_does_not_answer_does_not_hold_the_shutdown_up(server):
    broker = server()
    broker.connect()  # sends nothing any more
    stop(broker)
    assert broker.process.child.wait(15) == 0


def test_b028_a_stopping_broker_takes_no_new_connections(server):
    broker = server()
    broker.connect()
    stop(broker)
    client.eventually(lambda: refuses(broker.process.port), "the listener to close")


def refuses(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as one:
            one.sendall(b"AMQP\x00\x00\x09\x01")
            return one.recv(1) == b""
    except OSError:
        return True


@pytest.fixture(params=["stopped", "killed"])
def again(request):
    """Ends a server, by SIGTERM or by SIGKILL, and starts it on the same data."""

    def restart(broker):
        for one in broker.clients:
            one.kill()
        if request.param == "stopped":
            broker.process.stop()
        else:
            broker.process.kill()
        broker.start()
        return broker.connect().channel()

    return restart


def test_b190_a_restart_keeps_what_is_durable(server, again):
    broker = server()
    ch = broker.connect().channel()
    ch.call("exchange.declare", exchange="x", type="topic", durable=True)
    ch.call("queue.declare", queue="q", durable=True, arguments={"x-max-priority": 3})
    ch.call("queue.bind", queue="q", exchange="x", routing_key="a.#", arguments={"k": "v"})
    ch.call("confirm.select")
    for body, priority in ((b"one", 1), (b"two", 2)):
        ch.confirmed("x", "a.b", body, delivery_mode=2, priority=priority, headers={"h": 1}, message_id="id")
    ch = again(broker)
    ch.call("exchange.declare", exchange="x", type="topic", durable=True, passive=True)
    ch.call("queue.declare", queue="q", durable=True, arguments={"x-max-priority": 3})
    got = [ch.get("q") for _ in range(2)]
    assert [one.body for one in got] == [b"two", b"one"]
    wanted = {"delivery_mode": 2, "priority": 2, "headers": {"h": 1}, "message_id": "id"}
    assert wanted.items() <= got[0].props.items()
    ch.publish("x", "a.c", b"three")
    client.eventually(lambda: ch.ready("q") == 1)


def test_b190_a_restart_forgets_what_is_transient(server, again):
    broker = server()
    ch = broker.connect().channel()
    ch.call("queue.declare", queue="shared")
    ch.call("exchange.declare", exchange="x", type="fanout")
    ch.call("queue.declare", queue="q", durable=True)
    ch.call("queue.bind", queue="q", exchange="x")
    ch.call("queue.declare", queue="mine", durable=True, exclusive=True)
    ch.call("confirm.select")
    ch.confirmed("", "q", b"transient")
    ch.confirmed("", "q", b"persistent", delivery_mode=2)
    ch = again(broker)
    for declare in ({"queue": "shared"}, {"queue": "mine"}, {"exchange": "x", "type": "fanout"}):
        with pytest.raises(client.ChannelClosed, match="404"):
            ch.call(f"{next(iter(declare))}.declare", **declare, passive=True)
        ch = broker.connect().channel()
    assert ch.get("q").body == b"persistent"
    assert ch.ready("q") == 0
    ch.call("exchange.declare", exchange="x", type="fanout")
    ch.publish("x", "", b"no binding came back")
    ch.put("q", b"last")
    assert ch.get("q").body == b"last"


def test_b190_deliveries_that_were_not_acked_come_again_as_redelivered(server, again):
    broker = server()
    ch = broker.connect().channel()
    ch.call("queue.declare", queue="q", durable=True)
    ch.call("confirm.select")
    for body in (b"acked", b"unacked", b"ready"):
        ch.confirmed("", "q", body, delivery_mode=2)
    ch.qos(2)
    ch.consume("q")
    first, second = ch.deliver(), ch.deliver()
    ch.ack(first.delivery_tag)
    assert ch.consumers("q") == 1
    assert second.body == b"unacked"
    ch = again(broker)
    assert ch.drain("q")[-2:] == [b"unacked", b"ready"]


def test_b190_the_default_exchanges_are_there_after_a_restart(server, again):
    broker = server()
    ch = broker.connect().channel()
    ch.call("queue.declare", queue="q", durable=True)
    ch.call("queue.bind", queue="q", exchange="amq.direct", routing_key="k")
    ch = again(broker)
    for name, kind in {"amq.direct": "direct", "amq.topic": "topic", "amq.rabbitmq.trace": "topic"}.items():
        ch.call("exchange.declare", exchange=name, type=kind, passive=True)
    ch.publish("amq.direct", "k", b"m")
    client.eventually(lambda: ch.ready("q") == 1)
    ch.publish("", "q", b"m")
    client.eventually(lambda: ch.ready("q") == 2)


def test_b190_dead_letter_history_survives(server, again):
    broker = server()
    ch = broker.connect().channel()
    ch.call("queue.declare", queue="dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    ch.call("queue.declare", queue="q", durable=True, arguments=arguments)
    ch.call("confirm.select")
    ch.confirmed("", "q", b"m", delivery_mode=2)
    ch.reject(ch.get("q").delivery_tag, requeue=False)
    client.eventually(lambda: ch.ready("dead") == 1)
    ch = again(broker)
    got = ch.get("dead")
    if got is None:  # killed before it was on disk: then it is where it was
        ch.reject(ch.get("q").delivery_tag, requeue=False)
        client.eventually(lambda: ch.ready("dead") == 1)
        got = ch.get("dead")
    death = got.props["headers"]["x-death"][0]
    assert (death["queue"], death["reason"], death["count"]) == ("q", "rejected", 1)


def test_b190_a_ttl_goes_on_over_a_restart(server, again):
    broker = server()
    ch = broker.connect().channel()
    ch.call("queue.declare", queue="q", durable=True)
    ch.call("confirm.select")
    ch.confirmed("", "q", b"short", delivery_mode=2, expiration="300")
    ch.confirmed("", "q", b"long", delivery_mode=2, expiration="3600000")
    ch = again(broker)
    client.eventually(lambda: ch.ready("q") == 1)
    assert ch.get("q").body == b"long"


def test_clients_of_a_listener_for_both_families_stand_with_the_address_they_have(server):
    server = server("listeners.tcp.default = 0\n")
    server.connect().channel()
    [listed] = server.listed("list_connections", "name", "host", "peer_host")
    assert (listed["host"], listed["peer_host"]) == ([127, 0, 0, 1], [127, 0, 0, 1])
    assert re.fullmatch(rf"127\.0\.0\.1:\d+ -> 127\.0\.0\.1:{server.process.port}", listed["name"])
