"""One of everything that the HTTP API shows, and how each of its paths is asked for it. Knows no answers."""

import time
from contextlib import contextmanager

import pika

from api import quoted

V, USER = "schemas", "schemas-user"


def put(api, path, body):
    answer = api("PUT", path, body)
    assert answer.status in (201, 204), (path, answer)


def things(api):
    put(api, f"/api/vhosts/{V}", {"description": "d", "tags": "a,b", "default_queue_type": "classic"})
    put(api, f"/api/vhosts/{V}-bare", {})
    put(api, f"/api/permissions/{V}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    put(api, f"/api/users/{USER}", {"password": "pw", "tags": "management"})
    put(api, f"/api/permissions/{V}/{USER}", {"configure": ".*", "write": ".*", "read": ".*"})
    put(api, f"/api/topic-permissions/{V}/{USER}", {"exchange": "amq.topic", "write": "a", "read": "b"})
    put(api, f"/api/user-limits/{USER}/max-channels", {"value": 1000})
    put(api, f"/api/vhost-limits/{V}/max-queues", {"value": 1000})
    policy = {"pattern": "^q", "definition": {"max-length": 1000, "overflow": "drop-head"}, "priority": 1, "apply-to": "queues"}
    put(api, f"/api/policies/{V}/p", policy)
    put(api, f"/api/policies/{V}/px", {"pattern": "^x", "definition": {"alternate-exchange": "amq.fanout"}, "apply-to": "exchanges"})
    put(api, f"/api/operator-policies/{V}/op", {"pattern": "^q", "definition": {"max-length": 500}, "apply-to": "queues"})
    put(api, "/api/global-parameters/schemas", {"name": "schemas", "value": {"a": 1}})
    put(api, f"/api/exchanges/{V}/x", {"type": "topic", "durable": True, "arguments": {"a": 1}})
    put(api, f"/api/exchanges/{V}/internal", {"type": "fanout", "durable": True, "internal": True})
    for name, arguments in [("q", {"x-message-ttl": 3600000}), ("q2", {}), ("target", {}), ("single", {"x-single-active-consumer": True})]:
        put(api, f"/api/queues/{V}/{name}", {"durable": True, "arguments": arguments})
    for key in ("a.#", "a"):
        assert api("POST", f"/api/bindings/{V}/e/x/q/q", {"routing_key": key, "arguments": {"n": 1}}).status == 201
    assert api("POST", f"/api/bindings/{V}/e/x/e/internal", {"routing_key": "e"}).status == 201
    shovel = {"src-uri": "amqp://", "src-queue": "q2", "dest-uri": "amqp://", "dest-queue": "target"}
    put(api, f"/api/parameters/shovel/{V}/s", {"value": shovel})
    put(api, f"/api/parameters/shovel/{V}/broken", {"value": {**shovel, "src-uri": "amqp://127.0.0.1:1"}})
    properties = {"content_type": "text/plain", "delivery_mode": 2, "priority": 1, "timestamp": 1, "headers": {"h": [1, "x"]}, "message_id": "m", "app_id": "a",
                  "user_id": "guest", "type": "t", "reply_to": "r", "expiration": "3600000", "correlation_id": "c", "content_encoding": "e", "cluster_id": "c"}
    for routing_key, properties, payload, encoding in [("a", properties, "hello", "string"), ("a", {}, "//4=", "base64")]:
        message = {"routing_key": routing_key, "properties": properties, "payload": payload, "payload_encoding": encoding}
        assert api("POST", f"/api/exchanges/{V}/x/publish", message).json == {"routed": True}


def traffic(connection):
    """Publishes, deliveries of each kind, a returned message, consumers, some of which wait."""
    channel = connection.channel()
    channel.confirm_delivery()
    for _ in range(20):
        channel.basic_publish("x", "a.b", b"hello", pika.BasicProperties(delivery_mode=2))
        channel.basic_publish("", "q2", b"hello")
    try:
        channel.basic_publish("x", "zzz", b"hello", mandatory=True)
    except pika.exceptions.UnroutableError:
        pass
    consumer = connection.channel()
    consumer.basic_qos(prefetch_count=5)
    consumer.queue_declare("excl", exclusive=True)
    consumer.basic_consume("q", lambda channel, method, *_: channel.basic_ack(method.delivery_tag) if method.delivery_tag < 9 else None, consumer_tag="ctag",
                           arguments={"x-priority": 3})
    for tag in ("one", "two"):
        consumer.basic_consume("single", lambda *_: None, consumer_tag=tag)
    consumer.basic_consume("target", lambda *_: None, auto_ack=True)
    channel.basic_get("q")
    channel.basic_nack(channel.basic_get("q")[0].delivery_tag, requeue=True)
    end = time.time() + 1.5
    while time.time() < end:
        connection.process_data_events(0.1)
    transaction = connection.channel()
    transaction.tx_select()


def clean(api):
    for path in [f"vhosts/{V}", f"vhosts/{V}-bare", f"users/{USER}", "global-parameters/schemas"]:
        api("DELETE", f"/api/{path}")


@contextmanager
def scene(api, amqp):
    """Everything is there while it lasts; yields what stands for each part of a path."""
    clean(api)
    things(api)
    parameters = pika.URLParameters(amqp.rsplit("/", 1)[0] + "/" + V)
    parameters.client_properties = {"connection_name": "schemas", "product": "test"}
    connection = pika.BlockingConnection(parameters)
    try:
        traffic(connection)
        name = next(it["name"] for it in api.get("/api/connections") if it["vhost"] == V and it.get("user_provided_name") == "schemas")
        yield {"node": api.get("/api/overview")["node"], "vhost": V, "user": USER, "connection": name}
    finally:
        connection.close()
        clean(api)


# Parts of paths that mean something else in one family than in another.
NAMES = {"/api/exchanges/": {"name": "x"}, "/api/queues/": {"name": "q"}, "/api/policies/": {"name": "p"}, "/api/operator-policies/": {"name": "op"},
         "/api/shovels/": {"name": "s"}, "/api/bindings/": {"source": "x", "kind": "q", "destination": "q", "props": "~"},
         "/api/parameters/": {"component": "shovel", "name": "s"}, "/api/global-parameters/": {"name": "schemas"}, "/api/topic-permissions/": {"exchange": "amq.topic"},
         "/api/health/": {"protocols": "amqp", "within": "1", "unit": "days", "pattern": ".*"}, "/api/auth/": {"password": "x"},
         "/api/nodes/": {"filter": "x"}, "/api/profile/": {"number": "1"}}


def filled(path, stands_for):
    """The path of a route with names of things that are there."""
    own = next((names for family, names in NAMES.items() if path.startswith(family)), {})
    names = {**stands_for, **own}
    if path.startswith(("/api/connections/", "/api/channels/")):
        names["name"] = stands_for["connection"] + (" (1)" if path.startswith("/api/channels/") else "")
    if path.startswith(("/api/connections/username/", "/api/users/{user}/queues")):
        names["user"] = "guest"
    if "{props}" in path:
        names["props"] = stands_for["props"]
    words = [quoted(names[part[1:-1]]) if part.startswith("{") else part for part in path.split("/")]
    return "/".join(words)


QUERIES = {"/api/explain/route": f"vhost={V}&exchange=x&routing_key=a", "/api/explain/delivery": f"vhost={V}&queue=single"}
RANGES = "lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5&data_rates_age=60&data_rates_incr=5"


def asked(path, stands_for):
    """The requests that the route of a path gets."""
    if path.startswith(("/debug/", "/api/profile/cpu", "/api/profile/heap", "/api/profile/waits", "/api/profile/faults", "/api/profile/captures/")):
        return []        # they last for seconds, or need something slow to have happened
    there = filled(path, stands_for)
    if path.startswith("/api/profile/"):
        return [there]   # refuses what it does not know in a query
    if path in QUERIES:
        return [f"{there}?{QUERIES[path]}"]
    more = {"/api/queues/{vhost}": ["?disable_stats=true", "?enable_queue_totals=true&disable_stats=true"], "/api/whoami": ["?permissions=true"],
            "/api/overview": ["?disable_stats=true"], "/api/nodes/{node}": ["?memory=true"]}.get(path, [])
    return [there + query for query in ["", "?page=1&pagination=true", f"?{RANGES}", *more]]
