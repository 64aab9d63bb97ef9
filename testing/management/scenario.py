"""Requests to a broker, step by step, so that the answers of two brokers can be compared. Knows no broker.

Everything happens in the vhost `httpshapes` and with the users `hs1` and `hs2`, which are deleted before and after.
"""

import time

import pika

from api import quoted

V = "httpshapes"


def traffic(amqp):
    """A connection with a publishing and a consuming channel, after enough messages and time for statistics."""
    parameters = pika.URLParameters(amqp.rsplit("/", 1)[0] + "/" + V)
    parameters.client_properties = {"connection_name": "shapes", "hello": True}
    connection = pika.BlockingConnection(parameters)
    publisher = connection.channel()
    publisher.confirm_delivery()
    message = pika.BasicProperties(delivery_mode=2, content_type="text/plain", headers={"h": 1})
    for _ in range(20):
        publisher.basic_publish("x1", "a.b", b"hello", message)
    try:
        publisher.basic_publish("x1", "zzz", b"hello", mandatory=True)
    except pika.exceptions.UnroutableError:
        pass
    consumer = connection.channel()
    consumer.basic_qos(prefetch_count=5)
    consumer.queue_declare("excl", exclusive=True)
    consumer.basic_consume("q1", lambda channel, method, *_: channel.basic_ack(method.delivery_tag), consumer_tag="ctag", arguments={"x-priority": 3})
    end = time.time() + 12
    while time.time() < end:
        connection.process_data_events(0.1)
        publisher.basic_publish("x1", "a.b", b"hello")
    consumer.basic_get("q2")
    return connection, publisher


def before():
    yield "PUT", f"/api/vhosts/{V}", {"description": "d", "tags": "a,b", "default_queue_type": "classic"}
    yield "PUT", f"/api/vhosts/{V}", {"description": "d", "tags": "a,b"}
    yield "PUT", f"/api/permissions/{V}/guest", {"configure": ".*", "write": ".*", "read": ".*"}
    x = f"/api/exchanges/{V}"
    yield "PUT", f"{x}/x1", {"type": "topic", "durable": True, "auto_delete": False, "internal": False, "arguments": {"alternate-exchange": "amq.fanout"}}
    yield "PUT", f"{x}/x1", {"type": "topic", "durable": True}
    yield "PUT", f"{x}/x1", {"type": "direct", "durable": True}
    yield "PUT", f"{x}/xbad", {"type": "nope", "durable": True}
    q = f"/api/queues/{V}"
    arguments = {"x-max-length": 1000, "x-message-ttl": 3600000}
    yield "PUT", f"{q}/q1", {"durable": True, "auto_delete": False, "arguments": arguments}
    yield "PUT", f"{q}/q1", {"durable": True, "auto_delete": False, "arguments": arguments}
    yield "PUT", f"{q}/q1", {"durable": True, "auto_delete": True, "arguments": {}}
    yield "PUT", f"{q}/q2", {"durable": True}
    yield "PUT", f"{q}/q3", {"arguments": {"x-max-length": "a"}}
    yield "PUT", "/api/queues/nov/q3", {}
    yield "PUT", f"{q}/amq.q3", {}
    yield "PUT", f"{q}/q3", b"{bad"
    yield "PUT", f"{q}/q3", b"[]"
    yield "PUT", f"{q}/q3", {"durable": "x"}
    yield "PUT", f"{q}/q3", {"durable": True, "unknown": "x"}
    yield "DELETE", f"{q}/q3", None
    yield "DELETE", f"{q}/q3", None
    b = f"/api/bindings/{V}/e/x1"
    yield "POST", f"{b}/q/q1", {"routing_key": "b/c ~%", "arguments": {}}
    yield "POST", f"{b}/q/q1", {}
    yield "POST", f"{b}/e/amq.direct", {"routing_key": "rk"}
    yield "POST", f"{b}/q/q1", {"routing_key": "a.#", "arguments": {}}
    yield "POST", f"/api/bindings/{V}/e/nox/q/q1", {"routing_key": "rk"}
    yield "POST", f"{b}/q/noq", {"routing_key": "rk"}


READS = f"""
/api/overview /api/cluster-name /api/cluster-name/ /api/nodes /api/extensions /api/whoami /api/version /api/vhosts/{V} /api/users/guest /api/permissions
/api/permissions/{V}/guest /api/topic-permissions /api/vhosts/{V}/connections /api/connections/CONNECTION /api/connections/CONNECTION/channels
/api/vhosts/{V}/channels /api/channels/CONNECTION%20%281%29 /api/channels/CONNECTION%20%282%29 /api/consumers/{V} /api/exchanges/{V}
/api/exchanges/{V}/x1 /api/exchanges/{V}/amq.default /api/queues/{V} /api/queues/{V}/q1 /api/queues/{V}/q2 /api/queues/{V}/excl
/api/queues/{V}?page=1&page_size=2
/api/queues/{V}/q1?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5
/api/bindings/{V} /api/queues/{V}/q1/bindings /api/exchanges/{V}/x1/bindings/source /api/exchanges/{V}/x1/bindings/destination
/api/bindings/{V}/e/x1/q/q1 /api/bindings/{V}/e/x1/e/amq.direct /api/bindings/{V}/e/x1/q/q1/~
/api/bindings/{V}/e/x1/q/q1/b%252Fc%2520%257E%2525
/api/deprecated-features /api/parameters /api/global-parameters /api/vhost-limits /api/user-limits /api/policies /api/operator-policies
/api/vhosts/{V}/permissions /api/vhosts/{V}/topic-permissions /api/users/guest/permissions /api/users/guest/topic-permissions
/api/users/without-permissions /api/definitions/{V} /api/health/checks/alarms /api/health/checks/local-alarms
/api/health/checks/virtual-hosts /api/health/checks/node-is-quorum-critical /api/health/checks/port-listener/1
/api/health/checks/protocol-listener/amqp091 /api/health/checks/protocol-listener/nope /api/health/checks/certificate-expiration/1/days
/api/health/checks/is-in-service /api/health/checks/ready-to-serve-clients /api/health/checks/below-node-connection-limit
/api/health/checks/metadata-store/initialized /api/health/checks/metadata-store/initialized/with-data
/api/health/checks/reached-target-cluster-size /api/health/checks/quorum-queues-without-elected-leaders/all-vhosts
/api/aliveness-test/{V} /api/auth/hash_password/abc /api/queues/nov/q /api/queues/nov /api/nope /api/nodes/x /api/nodes/NODE
/api/nodes/NODE/memory /api/nodes/NODE/memory/relative /api/login /api/rebalance/queues /api/reset
""".split()


def after():
    q, v = f"/api/queues/{V}", f"/api/vhosts/{V}"
    send = f"/api/exchanges/{V}/amq.default/publish"
    binary = {"delivery_mode": 1, "headers": {"a": 1, "l": [1, "x"]}, "message_id": "m", "timestamp": 1700000000}
    yield "POST", send, {"routing_key": "q2", "properties": binary, "payload": "//4=", "payload_encoding": "base64"}
    for mode in ["ack_requeue_true", "ack_requeue_false"]:
        yield "POST", f"{q}/q2/get", {"count": 2, "ackmode": mode, "encoding": "auto", "truncate": 50000}
    yield "POST", f"{q}/q2/get", {"count": 2}
    yield "POST", f"{q}/q2/get", {"count": 2, "ackmode": "x", "encoding": "auto"}
    yield "POST", send, {"routing_key": "q2", "properties": {"delivery_mode": 2, "headers": {"x": 1.5}}, "payload": "aGk=", "payload_encoding": "base64"}
    yield "POST", send, {"routing_key": "noq", "properties": {}, "payload": "hi", "payload_encoding": "string"}
    yield "POST", f"/api/exchanges/{V}/nox/publish", {"routing_key": "noq", "properties": {}, "payload": "hi", "payload_encoding": "string"}
    yield "POST", send, {"routing_key": "noq", "payload": "hi", "payload_encoding": "string"}
    yield "POST", send, {"routing_key": "noq", "properties": {}, "payload": "hi", "payload_encoding": "nope"}
    yield "POST", send, {"routing_key": "q2", "properties": {"delivery_mode": "x"}, "payload": "hi", "payload_encoding": "string"}
    yield "DELETE", f"{q}/q1/contents", None
    yield "DELETE", f"{q}/noq/contents", None
    yield "POST", f"{q}/q1/actions", {"action": "sync"}
    yield "DELETE", f"{q}/q1?if-unused=true", None
    yield "DELETE", f"{q}/q2?if-empty=true", None
    yield "DELETE", f"/api/exchanges/{V}/x1?if-unused=true", None
    yield "DELETE", f"/api/exchanges/{V}/amq.direct", None
    yield "DELETE", f"/api/exchanges/{V}/nox", None
    yield "DELETE", f"/api/bindings/{V}/e/x1/q/q1/~nope", None
    yield from users()
    yield from settings()
    yield "POST", f"/api/definitions/{V}", {"queues": [{"name": "imp", "durable": True, "auto_delete": False, "arguments": {}}]}
    yield "POST", f"/api/definitions/{V}", b"{bad"
    yield "POST", "/api/definitions", {"queues": [{"name": "imp", "vhost": "nov", "durable": True, "auto_delete": False, "arguments": {}}]}
    yield "POST", f"{v}/deletion/protection", {}
    yield "DELETE", v, None
    yield "GET", v, None
    yield "DELETE", f"{v}/deletion/protection", None
    yield "POST", f"{v}/start/NODE", {}
    yield "PUT", "/api/cluster-name", {}
    yield "PUT", "/api/feature-flags/nope/enable", {}
    yield from lists()
    yield "GET", "/api/connections/username/guest", None
    yield "DELETE", "/api/connections/CONNECTION", None
    yield "DELETE", "/api/connections/nope", None
    yield "DELETE", "/api/connections/username/nobody", None
    yield "POST", "/api/users/bulk-delete", {"users": ["hs1", "hs2"]}
    yield "GET", "/api/users/hs1", None
    yield "POST", "/api/queues", {}
    yield "PATCH", "/api/overview", {}
    yield "OPTIONS", "/api/overview", None
    yield "DELETE", v, None
    yield "DELETE", v, None


def users():
    yield "PUT", "/api/users/hs1", {"password": "pw", "tags": "management"}
    yield "PUT", "/api/users/hs1", {"password": "pw", "tags": "management"}
    yield "GET", "/api/users/hs1", None
    yield "PUT", "/api/users/hs2", {"password_hash": "", "tags": ""}
    yield "PUT", "/api/users/hs2", {"password": "a"}
    yield "PUT", "/api/users/hs2", {"tags": "a"}
    yield "PUT", "/api/users/hs2", {"password_hash": "x!", "tags": "a"}
    for path in ["whoami", "vhosts", "users", "nodes", f"queues/{V}", "queues", "overview", "policies"]:
        yield "GET", f"/api/{path} as hs1:pw", None
    yield "PUT", f"/api/queues/{V}/zz as hs1:pw", {"durable": True}
    for login in ["hs1:bad", "", "hs2:"]:
        yield "GET", f"/api/whoami as {login}", None
    p = f"/api/permissions/{V}"
    yield "PUT", f"{p}/hs1", {"configure": "^z", "write": "", "read": ""}
    yield "PUT", f"/api/queues/{V}/zz as hs1:pw", {"durable": True}
    yield "PUT", f"/api/queues/{V}/yy as hs1:pw", {"durable": True}
    yield "PUT", f"{p}/hs1", {"configure": "("}
    yield "PUT", f"{p}/hs1", {"configure": "(", "write": "", "read": ""}
    yield "PUT", f"{p}/nobody", {"configure": "", "write": "", "read": ""}
    yield "PUT", "/api/permissions/nov/guest", {"configure": "", "write": "", "read": ""}
    t = f"/api/topic-permissions/{V}/hs1"
    yield "PUT", t, {"exchange": "amq.topic", "write": "a", "read": "b"}
    yield "PUT", t, {"exchange": "nox", "write": "a", "read": "b"}
    yield "GET", t, None
    yield "GET", f"{t}/amq.topic", None
    yield "DELETE", f"{t}/amq.topic", None
    yield "DELETE", t, None
    yield "DELETE", f"{p}/hs1", None
    yield "DELETE", f"{p}/hs1", None


def settings():
    limits = f"/api/vhost-limits/{V}"
    yield "PUT", f"{limits}/max-queues", {"value": 10}
    yield "PUT", f"{limits}/nope", {"value": 10}
    yield "PUT", f"{limits}/max-connections", {"value": "x"}
    yield "PUT", f"{limits}/max-connections", {}
    yield "GET", limits, None
    yield "DELETE", f"{limits}/max-queues", None
    yield "DELETE", f"{limits}/max-queues", None
    yield "PUT", "/api/user-limits/hs1/max-channels", {"value": 10}
    yield "PUT", "/api/user-limits/hs1/nope", {"value": 10}
    yield "GET", "/api/user-limits/hs1", None
    yield "DELETE", "/api/user-limits/hs1/max-channels", None
    for kind in ["policies", "operator-policies"]:
        p = f"/api/{kind}/{V}"
        yield "PUT", f"{p}/p1", {"pattern": "^q", "definition": {"max-length": 500}, "priority": 1, "apply-to": "queues"}
        yield "GET", p, None
        yield "GET", f"{p}/p1", None
        yield "GET", f"/api/queues/{V}/q1", None
        yield "PUT", f"{p}/p2", {"pattern": "^q", "definition": {"nope": 5}, "priority": 1, "apply-to": "queues"}
        yield "PUT", f"{p}/p2", {"pattern": "^q"}
        yield "DELETE", f"{p}/p1", None
        yield "DELETE", f"{p}/p1", None
    yield "PUT", f"/api/parameters/nocomp/{V}/p", {"value": {}}
    yield "GET", f"/api/parameters/nocomp/{V}/p", None
    yield "GET", "/api/parameters/nocomp", None
    for value in [1, 2]:
        yield "PUT", "/api/global-parameters/hsg", {"name": "hsg", "value": {"a": value}}
    yield "GET", "/api/global-parameters/hsg", None
    yield "DELETE", "/api/global-parameters/hsg", None
    yield "DELETE", "/api/global-parameters/hsg", None


def lists():
    q = f"/api/queues/{V}"
    for query in [
        "page=0", "page=1&page_size=1000", "page=99", "page=x", "page=1&name=(&use_regex=true", "page=1&page_size=1&name=q&use_regex=false&sort=messages",
        "columns=name,message_stats.publish_details.rate&sort=name&sort_reverse=true", "sort=nope", "disable_stats=true&enable_queue_totals=true",
    ]:
        yield "GET", f"{q}?{query}", None
    yield "GET", "/api/queues/detailed?page=1&page_size=1", None


def shape(value, path=""):
    """Where values stand and of which type they are."""
    if isinstance(value, dict):
        return set().union(*(shape(inner, f"{path}.{key}") for key, inner in value.items())) or {f"{path} object"}
    if isinstance(value, list):
        return set().union(*(shape(inner, f"{path}[]") for inner in value)) or {f"{path} list"}
    return {f"{path} {type(value).__name__}"}


def run(api, amqp):
    """All answers, in order: `(request, answer)`."""
    clean(api)
    node = api.get("/api/overview")["node"]
    names = {"NODE": node}

    def ask(method, path, body):
        path, _, login = path.partition(" as ")
        asked = api if not _ else api.as_user(login or None)
        for word, name in names.items():
            path = path.replace(word, quoted(name))
        return asked(method, path, body)

    answers = [((method, path), ask(method, path, body)) for method, path, body in before()]
    connection, _publisher = traffic(amqp)
    names["CONNECTION"] = [c["name"] for c in api.get("/api/connections") if c["vhost"] == V][0]
    try:
        answers += [(("GET", path), ask("GET", path, None)) for path in READS]
        answers += [((method, path), ask(method, path, body)) for method, path, body in after()]
    finally:
        try:
            connection.close()
        except pika.exceptions.AMQPError:
            pass
        clean(api)
    return answers


def clean(api):
    api("DELETE", f"/api/vhosts/{V}/deletion/protection")
    for path in [f"vhosts/{V}", "users/hs1", "users/hs2", "global-parameters/hsg"]:
        api("DELETE", f"/api/{path}")


def summary(answers):
    """The compared parts: status, texts of refusals, shapes of everything else."""
    lines = []
    for (method, path), answer in answers:
        line = {"request": f"{method} {path}", "status": answer.status}
        if answer.status >= 400 and answer.status != 503:
            line["refusal"] = answer.body.decode("utf-8", "replace")
        elif answer.body and answer.headers.get("content-type", "").startswith("application/json"):
            line["shape"] = sorted(shape(answer.json))
        if "location" in answer.headers:
            line["location"] = answer.headers["location"]
        lines.append(line)
    return lines
