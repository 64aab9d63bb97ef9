"""`/api/explain/route`: all that it says of a message, over HTTP, and its description. A virtual host of its own."""

import urllib.parse

import pika
import pytest

V = "explain"


@pytest.fixture(scope="module")
def channel(api, broker):
    assert api("PUT", f"/api/vhosts/{V}", {}).status == 201
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp[: broker.amqp.rindex("/") + 1] + V))
    yield connection.channel()
    connection.close()
    api("DELETE", f"/api/vhosts/{V}")


@pytest.fixture(scope="module")
def schema(api):
    described = api.get("/api/openapi.json")
    route = described["paths"]["/api/explain/route"]["get"]
    assert [(it["name"], it["required"]) for it in route["parameters"]] == [
        ("vhost", False), ("exchange", True), ("routing_key", False), ("headers", False), ("body_bytes", False)]
    assert route["responses"]["200"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/ExplainedRoute"}
    return described["components"]["schemas"]["ExplainedRoute"]


KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "null": type(None)}


def check(value, schema, where="answer"):
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    assert any(type(value) is KINDS[kind] for kind in kinds), (where, value, kinds)
    assert value in schema.get("enum", [value]), (where, value)
    if "properties" in schema and value is not None:
        assert set(value) == set(schema["properties"]) == set(schema["required"]), where
        for name, inner in schema["properties"].items():
            check(value[name], inner, f"{where}.{name}")
    for at, item in enumerate(value if "items" in schema else []):
        check(item, schema["items"], f"{where}[{at}]")


@pytest.fixture
def explain(api, channel, schema):
    def ask(**query):
        answer = api.get("/api/explain/route?" + urllib.parse.urlencode({"vhost": V, **query}))
        check(answer, schema)
        return answer

    return ask


def test_a_queue_gets_a_message_at_once(channel, explain):
    channel.queue_declare("plain")
    way = explain(exchange="amq.default", routing_key="plain")
    assert (way["queues"], way["at_once"], way["after_delay"], way["turned_away"], way["reply"]) == (["plain"], ["plain"], [], [], None)
    assert way["queue_count"] == 1 and way["more_steps"] == 0 and way["steps"][0]["came"] == "published"


def test_a_queue_behind_a_delay_gets_it_when_the_delay_is_over(channel, explain):
    channel.exchange_declare("later", "x-delayed-message", arguments={"x-delayed-type": "direct"})
    channel.queue_declare("late")
    channel.queue_bind("late", "later", "k")
    way = explain(exchange="later", routing_key="k", headers='{"x-delay": 5000}')
    assert (way["at_once"], way["after_delay"], way["steps"][0]["delay_ms"]) == ([], ["late"], 5000)
    way = explain(exchange="later", routing_key="k")
    assert (way["at_once"], way["after_delay"], way["steps"][0]["delay_ms"]) == (["late"], [], None)


@pytest.mark.parametrize("arguments,body_bytes,reason", [
    ({"x-max-length": 1, "x-overflow": "reject-publish"}, 0, "full"),
    ({"x-max-length-bytes": 10}, 100, "over_limit"),
    ({"x-message-ttl": 0}, 0, "expires"),
])
@pytest.mark.parametrize("dead_lettered", [False, True])
def test_a_queue_that_would_not_keep_it_says_why(channel, explain, arguments, body_bytes, reason, dead_lettered):
    name = f"{reason}-{dead_lettered}"
    overflow = {"x-overflow": "reject-publish-dlx"} if reason == "full" and dead_lettered else {}
    channel.queue_declare(name, arguments={**arguments, **overflow, **({"x-dead-letter-exchange": "amq.fanout"} if dead_lettered else {})})
    if reason == "full":
        channel.basic_publish("", name, b"x")
        assert channel.queue_declare(name, passive=True).method.message_count == 1
    way = explain(exchange="amq.default", routing_key=name, body_bytes=body_bytes)
    assert way["turned_away"] == [{"queue": name, "reason": reason, "dead_lettered": dead_lettered}]
    assert way["queues"] == [name]


def test_an_address_of_direct_replies_waits_or_is_gone(channel, broker, explain):
    def address_of(channel):
        address = []
        channel.queue_declare("asked")
        channel.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
        channel.basic_publish("", "asked", b"q", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
        while not address:
            _, properties, _ = channel.basic_get("asked", auto_ack=True)
            address += [properties.reply_to] if properties else []
        return address[0]

    other = pika.BlockingConnection(pika.URLParameters(broker.amqp[: broker.amqp.rindex("/") + 1] + V))
    address = address_of(other.channel())
    way = explain(exchange="amq.default", routing_key=address)
    assert (way["reply"], way["queues"], way["steps"][0]["end"]) == (True, [], "reply")
    other.close()
    way = explain(exchange="amq.default", routing_key=address)
    assert (way["reply"], way["steps"][0]["end"]) == (False, "dead_end")


def test_wrong_questions_are_refused(api, channel):
    ask = f"/api/explain/route?vhost={V}&exchange=amq.topic"
    for more in ["&headers=[]", "&headers={", "&body_bytes=x", "&body_bytes=-1", "&routing_key=" + "k" * 256]:
        answer = api("GET", ask + more)
        assert answer.status == 400 and set(answer.json) == {"error", "reason"}, (more, answer)
    assert api("GET", f"/api/explain/route?vhost={V}").json == {"error": "bad_request", "reason": "[{key_missing,exchange}]"}
