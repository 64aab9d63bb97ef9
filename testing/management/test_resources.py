"""Behaviour of resources, by the numbers of the compatibility reference."""

import time

import pika
import pytest

V = "resources"


@pytest.fixture(autouse=True)
def vhost(api):
    assert api("PUT", f"/api/vhosts/{V}", {}).status == 201
    yield
    assert api("DELETE", f"/api/vhosts/{V}").status == 204


@pytest.fixture
def channel(broker):
    parameters = pika.URLParameters(broker.amqp + V)
    parameters.client_properties = {"connection_name": "resources"}
    connection = pika.BlockingConnection(parameters)
    yield connection.channel()
    if connection.is_open:
        connection.close()


def test_b171_definitions_come_back_as_they_went(api):
    api("PUT", f"/api/queues/{V}/q", {"durable": True, "arguments": {"x-max-length": 5}})
    api("PUT", f"/api/exchanges/{V}/x", {"type": "topic", "durable": True})
    api("POST", f"/api/bindings/{V}/e/x/q/q", {"routing_key": "a.#", "arguments": {"k": "v"}})
    one, everything = api.get(f"/api/definitions/{V}"), api.get("/api/definitions")
    assert all("vhost" not in entry for entry in one["queues"] + one["exchanges"] + one["bindings"])
    assert {"vhosts", "users", "permissions", "queues"} <= everything.keys()
    assert api("DELETE", f"/api/queues/{V}/q").status == 204
    assert api("POST", f"/api/definitions/{V}", one).status == 204
    assert api.get(f"/api/definitions/{V}") == one
    assert api("POST", "/api/definitions", everything).status == 204


def test_b172_a_queue_shows_its_state_and_no_policy(api):
    api("PUT", f"/api/queues/{V}/q", {"durable": True})
    queue = api.get(f"/api/queues/{V}/q")
    assert (queue["state"], queue["policy"], queue["operator_policy"], queue["effective_policy_definition"]) == ("running", None, None, {})


@pytest.mark.parametrize("mode,left,again", [("ack_requeue_true", 3, True), ("reject_requeue_true", 3, True), ("ack_requeue_false", 1, False), ("reject_requeue_false", 1, False)])
def test_b173_messages_are_taken_or_put_back(api, mode, left, again):
    api("PUT", f"/api/queues/{V}/q", {"durable": True})
    for payload in ["one", "two", "three"]:
        published = {"routing_key": "q", "properties": {"content_type": "text/plain"}, "payload": payload, "payload_encoding": "string"}
        assert api("POST", f"/api/exchanges/{V}/amq.default/publish", published).json == {"routed": True}
    taken = api("POST", f"/api/queues/{V}/q/get", {"count": 2, "ackmode": mode, "encoding": "auto", "truncate": 2}).json
    assert [message["payload"] for message in taken] == ["on", "tw"]
    assert [message["payload_bytes"] for message in taken] == [3, 3]
    assert [message["message_count"] for message in taken] == [2, 1]
    rest = api("POST", f"/api/queues/{V}/q/get", {"count": 9, "ackmode": "ack_requeue_false", "encoding": "base64"}).json
    assert len(rest) == left and rest[0]["redelivered"] is again and rest[0]["payload_encoding"] == "base64"


def test_b177_the_aliveness_test_says_ok_and_leaves_nothing(api):
    assert api.get(f"/api/aliveness-test/{V}") == {"status": "ok"}
    assert api.get(f"/api/queues/{V}") == []


CHECKS = ["alarms", "local-alarms", "virtual-hosts", "protocol-listener/amqp", "protocol-listener/amqp091,http", "certificate-expiration/2/weeks", "is-in-service",
          "ready-to-serve-clients", "below-node-connection-limit", "metadata-store/initialized", "metadata-store/initialized/with-data",
          "reached-target-cluster-size", "node-is-quorum-critical", f"quorum-queues-without-elected-leaders/vhost/{V}"]


@pytest.mark.parametrize("check", CHECKS)
def test_b178_checks_of_a_healthy_node_are_fine(api, check):
    assert api.get(f"/api/health/checks/{check}")["status"] == "ok"


def test_b178_checks_that_fail_answer_503_with_a_reason(api):
    for check in ["port-listener/1", "protocol-listener/mqtt"]:
        answer = api("GET", f"/api/health/checks/{check}")
        assert (answer.status, answer.json["status"], answer.json["reason"]) == (503, "failed", "No active listener")
    for asked, missing in [("amqp091,https", ["https"]), ("amqp,nope,mqtt", ["nope", "mqtt"]), ("amqp,", [""])]:
        answer = api("GET", f"/api/health/checks/protocol-listener/{asked}")
        assert (answer.status, answer.json["missing"]) == (503, missing)
    assert api("GET", "/api/health/checks/port-listener/x").status == 400
    assert api("GET", "/api/healthchecks/node/nope").status == 404
    assert api.get(f"/api/healthchecks/node/{api.get('/api/overview')['node'].replace('@', '%40')}") == {"status": "ok"}


def test_checks_of_load_balancers_need_no_login(api):
    checks = ["is-in-service", "ready-to-serve-clients", "below-node-connection-limit", "reached-target-cluster-size"]
    for who in [None, "guest:wrong"]:
        stranger = api.as_user(who)
        assert [stranger.get(f"/api/health/checks/{check}") for check in checks] == [{"status": "ok"}] * 4
        assert stranger.get("/api/version") == api.get("/api/version")
        assert {stranger("GET", f"/api/health/checks/{check}").status for check in CHECKS if check not in checks} == {401}
    assert api("GET", "/api/health/checks/certificate-expiration/1/fortnights").status == 400


def test_b179_statistics_have_a_history_when_one_is_asked_for(api, channel):
    # Forgets the thousands of objects that other tests have looked at: where there are too many, those with one look go first.
    assert api("DELETE", "/api/reset").status == 204
    channel.queue_declare("q", durable=True)
    api.get(f"/api/queues/{V}/q?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5")
    for _ in range(100):
        channel.basic_publish("", "q", b"x")
    time.sleep(4.2)
    queue = api.get(f"/api/queues/{V}/q?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5")
    details = queue["message_stats"]["publish_details"]
    assert details["rate"] > 0 and len(details["samples"]) == 13 and {"sample", "timestamp"} == details["samples"][0].keys()
    assert queue["messages_details"]["samples"][0]["sample"] >= 0 and queue["message_stats"]["publish"] == 100
    assert "samples" not in api.get(f"/api/queues/{V}/q")["messages_details"]


def test_b180_a_connection_is_closed_with_a_reason_and_shows_its_rates(api, channel):
    name = [c["name"] for c in api.get("/api/connections") if c["user_provided_name"] == "resources"][0]
    shown = api.get(f"/api/connections/{name.replace(' ', '%20').replace('>', '%3E')}")
    assert shown["recv_oct"] > 0 and "rate" in shown["recv_oct_details"] and shown["state"] == "running"
    path = f"/api/connections/{name.replace(' ', '%20').replace('>', '%3E')}"
    assert api("DELETE", path, headers={"X-Reason": "the shop closes"}).status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        channel.connection.sleep(5)
    assert closed.value.reply_code == 320 and "the shop closes" in closed.value.reply_text


def test_why_a_message_goes_where_it_goes(api):
    api("PUT", f"/api/queues/{V}/q", {"durable": True})
    api("POST", f"/api/bindings/{V}/e/amq.topic/q/q", {"routing_key": "a.*"})
    way = api.get(f"/api/explain/route?vhost={V}&exchange=amq.topic&routing_key=a.b")
    assert (way["queues"], way["queue_count"], way["steps"][0]["end"]) == (["q"], 1, "matched")
    way = api.get(f"/api/explain/route?vhost={V}&exchange=amq.topic&routing_key=b.b")
    assert (way["queues"], way["steps"][0]["end"]) == ([], "dead_end") and way["steps"][0]["nearest"][0]["why"]
    assert api.get(f"/api/explain/delivery?vhost={V}&queue=q")["verdict"]
    for path, text in [
        (f"route?vhost={V}&exchange=nox", f"exchange 'nox' does not exist in vhost '{V}'"),
        (f"delivery?vhost={V}&queue=noq", f"queue 'noq' does not exist in vhost '{V}'"),
        ("route?vhost=nov&exchange=nox", "vhost 'nov' does not exist"),
    ]:
        missing = api("GET", f"/api/explain/{path}")
        assert (missing.status, missing.json) == (404, {"error": "not_found", "reason": text})


def test_the_api_describes_itself(api):
    document = api.as_user(None).get("/api/openapi.json")
    assert document["openapi"].startswith("3.1") and "put" in document["paths"]["/api/queues/{vhost}/{name}"]
    page = api.as_user(None)("GET", "/api/index.html")
    assert page.status == 200 and b"/api/queues/{vhost}/{name}" in page.body


def test_b176_policies_are_told_of_and_the_queues_that_they_change(api, broker):
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp))
    channel = connection.channel()
    told = channel.queue_declare("", exclusive=True).method.queue
    for key in ["policy.*", "queue.policy.*"]:
        channel.queue_bind(told, "amq.rabbitmq.event", key)

    def heard(count):
        events, end = [], time.monotonic() + 10
        while len(events) < count and time.monotonic() < end:
            method, properties, _ = channel.basic_get(told, auto_ack=True)
            if method:
                events.append((method.routing_key, properties.headers))
        return events

    for name in ["pa", "pb", "other"]:
        api("PUT", f"/api/queues/{V}/{name}", {"durable": True})
    policy = {"pattern": "^p", "definition": {"max-length": 5, "dead-letter-exchange": "x"}, "priority": 3, "apply-to": "queues"}
    assert api("PUT", f"/api/policies/{V}/rule", policy).status == 201
    (key, headers), *queues = heard(3)
    assert (key, headers["name"], headers["vhost"], headers["pattern"], headers["priority"], headers["apply-to"]) == ("policy.set", "rule", V, "^p", 3, "queues")
    definition = policy["definition"]
    assert (headers["definition"], headers["user_who_performed_action"]) == (definition, "guest")
    assert sorted((key, told["name"], told["pattern"]) for key, told in queues) == [("queue.policy.updated", name, "^p") for name in ["pa", "pb"]]
    assert queues[0][1]["definition"] == definition and queues[0][1]["vhost"] == V
    assert api("DELETE", f"/api/policies/{V}/rule").status == 204
    cleared = heard(3)
    assert [key for key, _ in cleared] == ["policy.cleared", "queue.policy.cleared", "queue.policy.cleared"]
    assert "definition" not in cleared[1][1] and cleared[0][1]["name"] == "rule"
    connection.close()
