"""Routes that are seldom used: answers as RabbitMQ 4.3.6 was seen to give them, for a classic queue on a node alone."""

import time as clock

import pika
import pytest

from api import quoted

V, Q = "more", "/api/queues/quorum/more"
MISSING = {"error": "Object Not Found", "reason": "Not Found"}


def bad(reason):
    return 400, {"error": "bad_request", "reason": reason}


def unavailable(reason):
    return 503, {"error": "service_unavailable", "reason": reason}


SEEN = [
    ("GET", f"{Q}/q/status", None, (503, {"status": "failed", "reason": "classic_queue_not_supported"})),
    ("GET", f"{Q}/noq/status", None, (404, MISSING)),
    ("GET", "/api/queues/quorum/nov/noq/status", None, (404, MISSING)),
    ("POST", f"{Q}/q/replicas/add", {"node": "NODE"}, unavailable("classic_queue_not_supported")),
    ("POST", f"{Q}/noq/replicas/add", {"node": "NODE"}, unavailable("not_found")),
    ("POST", f"{Q}/q/replicas/add", {"node": "x"}, bad("Node is not a cluster member")),
    ("POST", f"{Q}/q/replicas/add", {}, bad("[{key_missing,node}]")),
    ("DELETE", f"{Q}/q/replicas/delete", {"node": "NODE"}, unavailable("classic_queue_not_supported")),
    ("DELETE", f"{Q}/q/replicas/delete", {"node": "x"}, bad("Node is not a cluster member")),
    ("POST", "/api/queues/quorum/replicas/on/NODE/grow", {"strategy": "all"}, bad("[{key_missing,vhost_pattern},{key_missing,queue_pattern}]")),
    ("POST", "/api/queues/quorum/replicas/on/NODE/grow", {"strategy": "all", "vhost_pattern": ".*", "queue_pattern": ".*"}, (204, None)),
    ("DELETE", "/api/queues/quorum/replicas/on/x/shrink", None, (404, MISSING)),
    ("GET", "/api/nodes/NODE/memory/ets/nonsense", None, (200, {"ets_tables_memory": "no_tables"})),
    ("GET", "/api/nodes/NODE/memory/ets/nonsense/relative", None, (200, {"ets_tables_memory": "no_tables"})),
    ("GET", "/api/nodes/x/memory/ets", None, (404, MISSING)),
    ("POST", f"/api/vhosts/{V}/start/NODE", {}, (204, None)),
    ("POST", f"/api/vhosts/{V}/start/x", {}, bad("Unknown node: x")),
    ("POST", "/api/vhosts/nov/start/x", {}, bad("Unknown node: x")),
    ("POST", "/api/vhosts/nov/start/NODE", {}, bad('Request to node NODE failed with {no_such_vhost,<<"nov">>}')),
    ("POST", f"/api/vhosts/{V}/deletion/protection", {}, (204, None)),
    ("DELETE", f"/api/vhosts/{V}/deletion/protection", None, (204, None)),
    ("POST", "/api/vhosts/nov/deletion/protection", {},
     (404, {"error": "not_found", "reason": "Cannot enable deletion protection of virtual host 'nov' because it does not exist"})),
    ("DELETE", "/api/vhosts/nov/deletion/protection", None, (404, MISSING)),
    ("PUT", "/api/feature-flags/nope/enable", {}, bad("unsupported")),
    ("GET", "/api/health/checks/port-listener/abc", None, bad("Invalid port")),
    ("GET", "/api/health/checks/certificate-expiration/1/moons", None, bad("Time unit not recognised. Supported units: days, weeks, months, years.")),
    ("GET", "/api/federation-links", None, (404, MISSING)),
    ("GET", "/api/traces", None, (404, MISSING)),
]


pytestmark = pytest.mark.usefixtures("vhost_with_q")


def named(value, node):
    """With the node's name where NODE stands."""
    if isinstance(value, dict):
        return {key: named(inner, node) for key, inner in value.items()}
    return value.replace("NODE", node) if isinstance(value, str) else value


@pytest.mark.parametrize("method, path, body, seen", SEEN, ids=[f"{method} {path} {body or ''}" for method, path, body, _ in SEEN])
def test_answers_are_those_seen(api, method, path, body, seen):
    node = api.get("/api/overview")["node"]
    answer = api(method, path.replace("NODE", node), named(body, node))
    status, wanted = seen
    assert answer.status == status, answer
    assert wanted is None or answer.json == named(wanted, node)


def test_a_queue_says_since_when_it_is_idle_and_what_its_messages_are(api):
    path = f"/api/queues/{V}/seen"
    assert api("PUT", path, {"durable": True}).status == 201
    assert "idle_since" not in api.get(path), "it was never used"
    for mode, time in [(2, 1000), (1, 999)]:
        properties = {"delivery_mode": mode, "timestamp": time}
        message = {"routing_key": "seen", "properties": properties, "payload": "12345"[:mode + 2], "payload_encoding": "string"}
        assert api("POST", f"/api/exchanges/{V}/amq.default/publish", message).json == {"routed": True}
    end = clock.monotonic() + 10
    while "idle_since" not in (shown := api.get(path)) and clock.monotonic() < end:
        clock.sleep(0.1)
    assert shown["idle_since"].endswith("+00:00") and len(shown["idle_since"]) == len("2026-11-21T16:52:03.258+00:00")
    figures = {key: shown[key] for key in ["messages", "messages_persistent", "message_bytes", "message_bytes_persistent", "messages_ram", "message_bytes_ram"]}
    assert figures == {"messages": 2, "messages_persistent": 1, "message_bytes": 7, "message_bytes_persistent": 4, "messages_ram": 2, "message_bytes_ram": 7}
    assert shown["head_message_timestamp"] == 1000
    listed = {queue["name"]: queue for queue in api.get(f"/api/queues/{V}")}
    assert listed["seen"]["head_message_timestamp"] == 1000 and "head_message_timestamp" not in listed["q"]
    detailed = {queue["name"]: queue for queue in api.get("/api/queues/detailed") if queue["vhost"] == V}
    assert detailed["seen"]["idle_since"] == shown["idle_since"] and detailed["q"]["head_message_timestamp"] is None


def test_a_channel_says_since_when_it_is_idle(api, broker):
    parameters = pika.URLParameters(broker.amqp)
    parameters.client_properties = {"connection_name": "idle"}
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()

    def idle_since():
        """Later than before, and as soon as it is told."""
        end = clock.monotonic() + 10
        while clock.monotonic() < end:
            name = next((it["name"] for it in api.get("/api/connections") if it["user_provided_name"] == "idle"), "")
            shown = api.get(f"/api/channels/{quoted(name + ' (1)')}").get("idle_since") if name else None
            if shown and shown not in seen:
                return shown
            clock.sleep(0.1)

    seen = []
    seen.append(idle_since())
    channel.basic_publish("", "nowhere", b"x")
    seen.append(idle_since())
    assert seen[0].endswith("+00:00") and seen[1] > seen[0]
    connection.close()


NULLS = [
    ("users/nulls", {"password": None, "tags": "management"}, ["not_string", None]),
    ("users/nulls", {"password_hash": None, "tags": "management"}, ["not_base64", None]),
    ("users/nulls", {"password": "x", "tags": "management", "limits": None}, ["not_object", None]),
    (f"permissions/{V}/nulls", {"configure": None, "write": "", "read": ""}, ["not_string", None]),
    (f"topic-permissions/{V}/nulls", {"exchange": None, "write": "", "read": ""}, ["no_such_exchange", None]),
    (f"topic-permissions/{V}/nulls", {"exchange": "amq.topic", "write": None, "read": ""}, ["not_string", None]),
    (f"queues/{V}/nulls", {"durable": None}, ["not_boolean", None]),
    (f"queues/{V}/nulls", {"auto_delete": None}, ["not_boolean", None]),
    (f"queues/{V}/nulls", {"arguments": None}, ["not_object", None]),
    (f"exchanges/{V}/nulls", {"type": "topic", "internal": None}, ["not_boolean", None]),
    (f"exchanges/{V}/nulls", {"type": None}, "invalid exchange type 'null'"),
]


@pytest.mark.parametrize("path,sent,reason", NULLS)
def test_null_is_not_taken_for_nothing_said(api, path, sent, reason):
    assert api("PUT", f"/api/vhosts/{V}", {"description": None, "tags": None, "default_queue_type": None, "metadata": None}).status in (201, 204)
    assert api("PUT", "/api/users/nulls", {"password": "x", "tags": "management", "hashing_algorithm": None}).status in (201, 204)
    answer = api("PUT", f"/api/{path}", sent)
    assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": reason})
    assert api.as_user("nulls:x").get("/api/whoami")["name"] == "nulls", "the password is there"
    assert api("GET", f"/api/permissions/{V}/nulls").status == api("GET", f"/api/queues/{V}/nulls").status == 404
    assert api("DELETE", "/api/users/nulls").status == 204
