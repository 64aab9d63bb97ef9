"""Messages that are published and taken over HTTP, and what a trace shows of that."""

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
