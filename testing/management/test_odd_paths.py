"""Paths that no route has, methods that a path does not take, and names of nodes that are not there: the statuses of RabbitMQ 4.3.6."""

import os
import re
import socket

import pytest

from api import Api
from warren import Warren

V = "oddpaths"
METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "FOO")

pytestmark = pytest.mark.usefixtures("vhost_with_q")


def statuses(api, path):
    return [api(method, path, b"{}" if method in ("PUT", "POST", "PATCH") else None).status for method in METHODS]


@pytest.mark.parametrize("login", ["guest:guest", "guest:wrong", None])
@pytest.mark.parametrize("path", [
    "/api/nosuch", "/api/nosuch/", "/api/nosuch/x/y", "/api//queues", "/api/Overview", "/API/overview", "/api/overview/x", "/api/health", "/api/health/checks", "/api/health/checks/nosuch",
    f"/api/queues/{V}/q/nosuch", f"/api/queues/{V}/q/get/x", f"/api/bindings/{V}/e", f"/api/bindings/{V}/e/amq.topic", f"/api/bindings/{V}/x/amq.topic/q/q", f"/api/exchanges/{V}/amq.topic/bindings",
    f"/api/permissions/{V}", f"/api/policies/{V}/x/y", f"/api/parameters/shovel/{V}/s/x", "/api/connections/x/y", "/api/nodes/x/y", f"/api/definitions/{V}/x", "/api/aliveness-test",
    "/api/federation-links", f"/api/traces/{V}", "/api/stream/x", "/api/auth/x", f"/api/vhosts/{V}/start", "/api/rebalance", "/api/feature-flags/x", "/api/users/bulk-delete/x",
    "/nosuch", "/nosuch/", "/img/x", "/js/nosuch.js", "/metrics", "/cli/rabbitmqadmin"])  # fmt: skip
def test_a_path_that_no_route_has_is_a_file_that_is_not_there(api, path, login):
    """Files are for everybody, with or without a login."""
    assert statuses(api.as_user(login), path) == [404, 404, 405, 405, 405, 405, 200, 501]
    assert api("PUT", path, b"{}").headers["allow"] == api("OPTIONS", path).headers["allow"] == "HEAD, GET, OPTIONS"


@pytest.mark.parametrize("path", ["/", "/index.html"])
def test_a_file_that_is_there_can_be_read_and_nothing_else(api, path):
    assert statuses(api.as_user(None), path) == [200, 200, 405, 405, 405, 405, 200, 501]


def test_a_known_path_refuses_other_methods_before_it_asks_who_it_is(api):
    """All that the table of routes has, but what RabbitMQ has not."""
    values = {"vhost": V, "name": "q", "node": "warren@localhost", "exchange": "amq.topic", "user": "guest", "source": "amq.topic", "destination": "q", "component": "shovel", "limit": "max-queues"}
    asked = 0
    for path, there in api.get("/api/openapi.json")["paths"].items():
        filled = re.sub(r"\{(\w+)\}", lambda part: values.get(part[1], "x"), path)
        for method in {"GET", "PUT", "POST", "DELETE", "PATCH", "FOO"} - {known.upper() for known in there}:
            for who in (api, api.as_user(None), api.as_user("guest:wrong")):
                answer = who(method, filled, b"{}" if method in ("PUT", "POST", "PATCH") else None)
                assert answer.status == (501 if method == "FOO" else 405), (method, path, answer)
                asked += 1
        allowed = api("OPTIONS", filled).headers["allow"].split(", ")
        assert set(allowed) - {"HEAD", "OPTIONS"} == {known.upper() for known in there}, path
    assert asked > 1500


ON_NODES = [("GET", "/api/nodes/NODE", 200), ("GET", "/api/nodes/NODE/memory", 200), ("GET", "/api/nodes/NODE/memory/relative", 200), ("GET", "/api/nodes/NODE/memory/ets", 200),
            ("GET", "/api/nodes/NODE/memory/ets/x/relative", 200), ("GET", "/api/auth/attempts/NODE", 200), ("GET", "/api/auth/attempts/NODE/source", 200),
            ("DELETE", "/api/auth/attempts/NODE", 204), ("GET", "/api/healthchecks/node/NODE", 200), ("DELETE", "/api/reset/NODE", 204),
            ("DELETE", "/api/queues/quorum/replicas/on/NODE/shrink", 202)]  # fmt: skip


def ask_about(api, node):
    """The answers of all routes with a node: the statuses, and whether a queue may be declared there."""
    told = [api(method, path.replace("NODE", node)).status for method, path, _ in ON_NODES]
    started, declared = api("POST", f"/api/vhosts/{V}/start/{node}"), api("PUT", f"/api/queues/{V}/there", {"node": node})
    api("DELETE", f"/api/queues/{V}/there")
    return told, started, declared


@pytest.mark.parametrize("node", ["warren@localhost", "rabbit@localhost", "rabbit@HOST", "warren@HOST", "rabbit@HOST.example.org"])
def test_names_of_this_node_go_on_working(api, node):
    told, started, declared = ask_about(api, node.replace("HOST", socket.gethostname().split(".")[0]))
    assert (told, started.status, declared.status) == ([status for _, _, status in ON_NODES], 204, 201)


@pytest.mark.parametrize("node", ["rabbit@nosuch", "nosuch", "other@localhost", "rabbit", "%2F", "rabbit@"])
def test_a_node_that_is_not_there_is_not_this_one(api, node):
    told, started, declared = ask_about(api, node)
    assert told == [404] * len(ON_NODES)
    assert (started.status, started.json["reason"]) == (400, f"Unknown node: {node.replace('%2F', '/')}")
    assert (declared.status, declared.json["reason"]) == (400, f"Node {node} is not a cluster member")


def test_the_name_that_the_broker_had_before_can_be_kept(tmp_path, monkeypatch):
    """Scripts and checks that have it go on working: the server is told it as RabbitMQ's is."""
    monkeypatch.setenv("RABBITMQ_NODENAME", "rabbit@old.example")
    server = Warren(os.environ.get("WARREN_BIN", "warren"), tmp_path, "prometheus.tcp.listener = none\n")
    server.start()
    try:
        api = Api(f"http://{server.http}")
        assert api("PUT", f"/api/vhosts/{V}", {}).status == 201
        for node in ("rabbit@old.example", "warren@localhost", "rabbit@localhost"):
            told, started, declared = ask_about(api, node)
            assert (told, started.status, declared.status) == ([status for _, _, status in ON_NODES], 204, 201), node
        assert api("GET", "/api/nodes/rabbit@older.example").status == 404
    finally:
        server.stop()


@pytest.mark.parametrize("said,reason", [
    ({"exclusive": "x"}, ["not_boolean", "x"]), ({"exclusive": None}, ["not_boolean", None]), ({"exclusive": "true"}, ["not_boolean", "true"]), ({"node": ""}, "Node  is not a cluster member"),
    ({"node": "rabbit@nosuch"}, "Node rabbit@nosuch is not a cluster member"), ({"node": 5}, ["not_string", 5])])
def test_what_cannot_be_said_of_a_queue(api, said, reason):
    answer = api("PUT", f"/api/queues/{V}/odd", said)
    assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": reason})


def test_a_queue_made_over_http_is_never_exclusive(api):
    for flag in (True, False):
        assert api("PUT", f"/api/queues/{V}/odd", {"exclusive": flag}).status == 201
        assert api.get(f"/api/queues/{V}/odd")["exclusive"] is False
        api("DELETE", f"/api/queues/{V}/odd")


def test_topic_permissions_can_be_set_by_the_path_with_an_exchange(api):
    """The exchange is that of the body, whatever stands in the path."""
    path, body = f"/api/topic-permissions/{V}/guest", {"exchange": "amq.topic", "write": "a", "read": "b"}
    assert api("PUT", f"{path}/nosuch", body).status == 201
    assert api.get(path) == [{"user": "guest", "vhost": V, **body}]
    assert api("PUT", f"{path}/amq.topic", {"write": "a", "read": "b"}).json["reason"] == "[{key_missing,exchange}]"
    assert api("PUT", f"{path}/nosuch", {**body, "read": "c"}).status == 204, "it is there already"
    assert api("DELETE", path).status == 204


def test_topic_permissions_are_found_by_vhost_and_user_whatever_exchange_stands_in_the_path(api):
    """As in RabbitMQ, where only DELETE looks at the exchange, and not at whether there was something to delete."""
    path = f"/api/topic-permissions/{V}/guest"
    both = [{"user": "guest", "vhost": V, "exchange": name, "write": "a", "read": "b"} for name in ("amq.rabbitmq.trace", "amq.topic")]
    assert [api("GET", f"{path}/nosuch").status, api("DELETE", f"{path}/nosuch").status] == [404, 404], "none at all"
    assert [api("PUT", path, {key: one[key] for key in ("exchange", "write", "read")}).status for one in both] == [201, 204]
    assert api.get(f"{path}/nosuch") == api.get(f"{path}/amq.topic") == both
    assert api("DELETE", f"{path}/nosuch").status == 204 and api.get(path) == both
    assert api("DELETE", f"{path}/amq.topic").status == 204 and api.get(f"{path}/amq.topic") == both[:1]
    assert api("DELETE", f"{path}/amq.topic").status == 204 and api.get(path) == both[:1]
    assert api("DELETE", f"{path}/amq.rabbitmq.trace").status == 204 and api("GET", f"{path}/amq.topic").status == 404
