"""Messages that are published and taken over HTTP, and what a trace shows of that."""

import base64
import socket
import time

import pika
import pytest

V = "messages"
PUBLISH, GET = f"/api/exchanges/{V}/amq.default/publish", f"/api/queues/{V}/q/get"


pytestmark = pytest.mark.usefixtures("vhost_with_q")


def publish(api, payload, encoding="string", **properties):
    return api("POST", PUBLISH, {"routing_key": "q", "properties": properties, "payload": payload, "payload_encoding": encoding})


def take(api):
    return api("POST", GET, {"ackmode": "ack_requeue_false", "count": 10, "encoding": "auto"}).json


@pytest.mark.parametrize("payload", ["aGVsbG8=", "aGVs\nbG8=\n", " aGVs\r\n bG8 = "])
def test_base64_may_have_line_breaks_and_blanks_as_tools_for_mails_write_it(api, payload):
    assert publish(api, payload, "base64").json == {"routed": True}
    assert [got["payload"] for got in take(api)] == ["hello"]


@pytest.mark.parametrize("payload", ["aGVsbG8", "aGVs,bG8=", "aGVsbG8=="])
def test_base64_that_is_none_is_refused(api, payload):
    refused = publish(api, payload, "base64")
    assert (refused.status, refused.json) == (400, {"error": "bad_request", "reason": ["not_base64", payload]})


def test_headers_are_as_deep_and_their_names_as_long_as_a_client_can_send_them(api):
    deep = "bottom"
    for _ in range(20):
        deep = {"t": [deep]}
    headers = {"n" * 255: 1, "deep": deep}
    assert publish(api, "x", headers=headers).json == {"routed": True}
    assert [got["properties"]["headers"] for got in take(api)] == [headers]
    assert publish(api, "x", headers={"n" * 256: 1}).status == 400


def test_arguments_that_a_client_nested_deeply_are_exported_whole(api, broker):
    deep = 1
    for _ in range(50):
        deep = {"t": deep}
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp + V))
    connection.channel().queue_declare("deep", durable=True, arguments={"deep": deep})
    connection.close()
    definitions = api.get(f"/api/definitions/{V}")
    assert [it["arguments"]["deep"] for it in definitions["queues"] if it["name"] == "deep"] == [deep]
    assert api("DELETE", f"/api/queues/{V}/deep").status == 204
    assert api("POST", f"/api/definitions/{V}", definitions).status == 204
    assert api.get(f"/api/queues/{V}/deep")["arguments"]["deep"] == deep


def test_a_trace_shows_what_is_published_and_taken_over_http(api, broker):
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp + V))
    channel = connection.channel()
    traces = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(traces, "amq.rabbitmq.trace", "#")
    broker.ctl("trace_on", "-p", V)
    try:
        publish(api, "traced")
        assert len(take(api)) == 1
        seen = []
        for method, properties, body in channel.consume(traces, inactivity_timeout=10, auto_ack=True):
            assert method, f"only {seen} came"
            seen.append((method.routing_key, properties.headers["channel"], body))
            if len(seen) == 2:
                break
    finally:
        broker.ctl("trace_off", "-p", V)
        connection.close()
    assert seen == [("publish.", 1, b"traced"), ("deliver.q", 1, b"traced")]


def send_large(broker, body, count=1):
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp + V))
    channel = connection.channel()
    channel.confirm_delivery()
    for _ in range(count):
        channel.basic_publish("", "q", body)
    connection.close()


def peek(broker, body=b'{"ackmode":"ack_requeue_true","count":100,"encoding":"auto"}'):
    """A request for messages whose answer is not read."""
    client = socket.create_connection(broker.address)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    login = base64.b64encode(b"guest:guest").decode()
    client.sendall(f"POST {GET} HTTP/1.1\r\nhost: x\r\nauthorization: Basic {login}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    return client


def test_large_messages_are_shown_whole_and_cut(api, broker):
    body = bytes(range(128)) * 40_000
    send_large(broker, body)
    ask = lambda **more: api("POST", GET, {"ackmode": "ack_requeue_true", "count": 1, "encoding": "auto", **more})
    assert ask().json[0]["payload"] == body.decode()
    assert base64.b64decode(ask(encoding="base64").json[0]["payload"]) == body
    cut = ask(truncate=100)
    assert (cut.json[0]["payload"], cut.json[0]["payload_bytes"]) == (body[:100].decode(), len(body)) and "content-length" in cut.headers
    assert take(api)[0]["payload_bytes"] == len(body)


def test_messages_in_answers_that_nobody_reads_have_a_bound_in_memory(api, broker):
    """Zeros are six times as long in JSON. 16 MiB is the largest message by default, 64 MiB the most of an answer, 128 MiB those of all answers."""
    send_large(broker, bytes(16 << 20), 6)
    api("GET", "/api/overview")
    before = broker.memory_kib()
    clients = [peek(broker) for _ in range(12)]
    deadline, seen = time.monotonic() + 8, 0
    while time.monotonic() < deadline:
        seen = max(seen, broker.memory_kib() - before)
        time.sleep(0.1)
    heads = [client.recv(200) for client in clients]
    statuses = sorted(head.split()[1] for head in heads)
    assert statuses[0] == b"200" and statuses[-1] == b"503", statuses
    assert seen < 400 << 10, f"{seen} KiB"
    for client in clients:
        client.close()
    settled = lambda: api("POST", GET, {"ackmode": "ack_requeue_true", "count": 1, "encoding": "auto", "truncate": 10})
    deadline = time.monotonic() + 30
    while settled().status != 200 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert settled().json[0]["payload_bytes"] == 16 << 20, "there is room again, and no message is lost"
    assert api("DELETE", f"/api/queues/{V}/q/contents").status == 204
