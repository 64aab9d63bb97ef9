"""Refusals for a user without permissions, with wrong bodies or in a missing vhost: RabbitMQ 4.3's statuses and words, as seen there."""

import pika
import pytest

V = "refusals"
MESSAGE = {"routing_key": "no", "properties": {}, "payload": "p", "payload_encoding": "string"}
GET = {"ackmode": "ack_requeue_true", "count": 1, "encoding": "auto"}
MISSING = (404, "Object Not Found", "Not Found")
NO_VHOST = (404, "not_found", "vhost_not_found")
NO_EXCHANGE = (404, "not_found", "exchange_not_found")
NO_QUEUE = (404, "not_found", "queue_not_found")
REFUSED = (401, "not_authorised", "Access refused.")
LOCKED = "cannot obtain exclusive access to locked queue 'ex' in vhost 'refusals'. It could be originally declared on another connection or the " \
         "exclusive property value does not match that of the original declaration."


def bad(reason):
    return (400, "bad_request", reason)


def no_write(exchange):
    return bad(f"403 ACCESS_REFUSED - write access to exchange '{exchange}' in vhost '{V}' refused for user 'limited'")


# As a user who may configure ^c, write ^w and read ^r, and publish `ok` to the topic exchange wx.
LIMITED = [
    ("POST", f"/api/exchanges/{V}/wx/publish", MESSAGE, bad(f"403 ACCESS_REFUSED - write access to topic 'no' in exchange 'wx' in vhost '{V}' refused for user 'limited'")),
    ("POST", f"/api/exchanges/{V}/cx/publish", MESSAGE, no_write("cx")),
    ("POST", f"/api/exchanges/{V}/amq.default/publish", MESSAGE, no_write("amq.default")),
    ("POST", f"/api/exchanges/{V}/win/publish", MESSAGE, bad(f"403 ACCESS_REFUSED - cannot publish to internal exchange 'win' in vhost '{V}'")),
    ("POST", f"/api/exchanges/{V}/wx/publish", {**MESSAGE, "routing_key": "ok", "properties": {"user_id": "other"}},
     bad("406 PRECONDITION_FAILED - user_id property set to 'other' but authenticated user was 'limited'")),
    ("POST", f"/api/exchanges/{V}/wx/publish", {**MESSAGE, "routing_key": "ok", "properties": {"expiration": "x"}}, bad("406 PRECONDITION_FAILED - invalid expiration 'x': no_integer")),
    ("POST", f"/api/queues/{V}/wq/get", GET, (401, "not_authorised", f"ACCESS_REFUSED - read access to queue 'wq' in vhost '{V}' refused for user 'limited'")),
    ("DELETE", f"/api/queues/{V}/wq/contents", None, REFUSED),
    ("DELETE", f"/api/queues/{V}/wq", None, REFUSED),
    ("PUT", f"/api/queues/{V}/wq2", {}, REFUSED),
    ("PUT", f"/api/exchanges/{V}/wq2", {"type": "direct"}, REFUSED),
    ("DELETE", f"/api/exchanges/{V}/wx", None, REFUSED),
    ("PUT", f"/api/queues/{V}/cq", {"durable": True}, bad(f"inequivalent arg 'durable' for queue 'cq' in vhost '{V}': received 'true' but current is 'false'")),
    ("POST", f"/api/bindings/{V}/e/wx/q/rq", {"routing_key": "ok"}, REFUSED),
    ("POST", f"/api/bindings/{V}/e/rx/q/rq", {"routing_key": "ok"}, REFUSED),
    ("POST", f"/api/bindings/{V}/e/rx/q/wmissing", {"routing_key": "ok"}, (404, "not_found", f"no queue 'wmissing' in vhost '{V}'")),
    ("POST", f"/api/bindings/{V}/e/rmissing/q/wq", {"routing_key": "ok"}, (404, "not_found", f"no exchange 'rmissing' in vhost '{V}'")),
]

GUEST = [
    ("POST", "/api/bindings/nov/e/x/q/y", {}, NO_VHOST),
    ("POST", "/api/queues/nov/q/actions", {"action": "sync"}, NO_VHOST),
    ("POST", "/api/queues/nov/q/get", {}, NO_VHOST),
    ("POST", "/api/exchanges/nov/x/publish", MESSAGE, NO_VHOST),
    ("PUT", "/api/queues/nov/q", {}, NO_VHOST),
    ("PUT", "/api/vhost-limits/nov/max-queues", {"value": 1}, NO_VHOST),
    ("POST", "/api/definitions/nov", {}, NO_VHOST),
    ("GET", "/api/definitions/nov", None, bad("vhost_not_found")),
    ("PUT", "/api/operator-policies/nov/p", {"pattern": "x", "definition": {"max-length": 5}}, NO_VHOST),
    ("PUT", f"/api/policies/{V}/p", {}, bad("[{key_missing,pattern},{key_missing,definition}]")),
    ("DELETE", "/api/vhost-limits/nov/max-queues", None, NO_VHOST),
    ("PUT", "/api/user-limits/nouser/max-channels", {"value": 5}, bad(["no_such_user", "nouser"])),
    ("PUT", f"/api/queues/{V}/elsewhere", {"durable": True, "node": "nonode"}, bad("Node nonode is not a cluster member")),
    ("PUT", f"/api/vhosts/{V}", {"default_queue_type": ""}, bad("default_queue_type must not be an empty string")),
    ("POST", "/api/users/bulk-delete", {"users": "x"}, bad(["not_list", "x"])),
    ("DELETE", "/api/queues/nov/q/contents", None, MISSING),
    ("POST", f"/api/queues/{V}/nox/get", {}, NO_QUEUE),
    ("POST", f"/api/exchanges/{V}/nox/publish", {}, NO_EXCHANGE),
    ("POST", f"/api/exchanges/{V}/wx/publish", {**MESSAGE, "payload": 5}, bad("payload_not_string")),
    ("POST", f"/api/queues/{V}/wq/get", {**GET, "encoding": "x"}, bad("Unsupported encoding. Please use auto or base64.")),
    ("PUT", f"/api/vhosts/{V}", {"default_queue_type": "nope"}, bad("nope is not a valid queue type")),
    ("DELETE", f"/api/exchanges/{V}/amq.topic", None, REFUSED),
]


@pytest.fixture(scope="module")
def limited(api):
    assert api("PUT", f"/api/vhosts/{V}", {}).status == 201
    assert api("PUT", "/api/users/limited", {"password": "p", "tags": "administrator"}).status == 201
    assert api("PUT", f"/api/permissions/{V}/limited", {"configure": "^c", "write": "^w", "read": "^r"}).status == 201
    for queue in ("cq", "wq", "rq"):
        assert api("PUT", f"/api/queues/{V}/{queue}", {}).status == 201
    for exchange, internal in (("cx", False), ("wx", False), ("rx", False), ("win", True)):
        assert api("PUT", f"/api/exchanges/{V}/{exchange}", {"type": "topic", "internal": internal}).status == 201
    assert api("PUT", f"/api/topic-permissions/{V}/limited", {"exchange": "wx", "write": "^ok", "read": "^ok"}).status == 201
    yield api.as_user("limited:p")
    api("DELETE", f"/api/vhosts/{V}")
    api("DELETE", "/api/users/limited")


def told(answer):
    return (answer.status, answer.json["error"], answer.json["reason"])


@pytest.mark.parametrize("method,path,sent,expected", LIMITED)
def test_a_user_is_told_what_he_may_not_do(limited, method, path, sent, expected):
    assert told(limited(method, path, sent)) == expected


@pytest.mark.parametrize("method,path,sent,expected", GUEST)
def test_what_makes_no_sense_is_told(limited, api, method, path, sent, expected):
    assert told(api(method, path, sent)) == expected


def test_a_queue_of_a_connection_is_locked_and_a_get_tells_the_code(limited, api, broker):
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp + V))
    connection.channel().queue_declare("ex", exclusive=True)
    assert told(api("POST", f"/api/queues/{V}/ex/get", GET)) == bad(f"405 RESOURCE_LOCKED - {LOCKED}")
    for method, path, sent in [("DELETE", "contents", None), ("DELETE", "", None), ("PUT", "", {})]:
        assert told(api(method, f"/api/queues/{V}/ex/{path}".rstrip("/"), sent)) == bad(LOCKED)
    connection.close()


def test_a_description_of_a_vhost_is_whole_and_its_protection_stays(api):
    def put(said):
        assert api("PUT", "/api/vhosts/described", said).status in (201, 204)
        shown = api.get("/api/vhosts/described")
        return shown["description"], shown["tags"], shown["default_queue_type"], shown["protected_from_deletion"]

    assert put({"description": "d", "tags": "a,b", "default_queue_type": "classic"}) == ("d", ["a", "b"], "classic", False)
    assert api("POST", "/api/vhosts/described/deletion/protection").status == 204
    assert put({"tags": ["x"]}) == ("", ["x"], "classic", True)
    assert put({}) == ("", [], "classic", True)
    assert api("DELETE", "/api/vhosts/described/deletion/protection").status == 204
    assert api("DELETE", "/api/vhosts/described").status == 204


def test_who_imports_a_vhost_may_do_everything_in_it(limited, api):
    queue = {"name": "q", "vhost": "imported", "durable": True, "auto_delete": False, "arguments": {}}
    assert limited("POST", "/api/definitions", {"vhosts": [{"name": "imported"}], "queues": [queue]}).status == 204
    granted = api.get("/api/vhosts/imported/permissions")
    assert granted == [{"vhost": "imported", "user": "limited", "configure": ".*", "write": ".*", "read": ".*"}]
    assert api.get("/api/queues/imported/q")["arguments"] == {"x-queue-type": "classic"}
    assert api("DELETE", "/api/vhosts/imported").status == 204
