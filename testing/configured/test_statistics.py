"""F168, F181: a node that shows no statistics, as one that Prometheus watches, and other settings of the HTTP API."""

import sys
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "management"))

from api import Api  # noqa: E402

KEYS = ["arguments", "auto_delete", "durable", "effective_policy_definition", "exclusive", "internal", "internal_owner", "name", "node",
        "operator_policy", "policy", "state", "type", "vhost"]      # what 4.3.6 shows then


def api_of(server, login="guest:guest"):
    line = next(line for line in server.do("listeners").splitlines() if "protocol: http" in line and "prometheus" not in line)
    return Api(f"http://127.0.0.1:{line.split('port: ')[1].split(',')[0]}", login)


def test_statistics_may_be_hidden_for_everybody(server):
    server = server("management.tcp.port = 0\nmanagement_agent.disable_metrics_collector = true\n")
    server.connect().channel().queue("q", durable=True)
    api = api_of(server)
    overview = api.get("/api/overview")
    assert (overview["disable_stats"], overview["enable_queue_totals"]) == (True, False)
    assert not {"message_stats", "queue_totals", "churn_rates"} & set(overview)
    assert [sorted(queue) for queue in api.get("/api/queues")] == [KEYS]
    assert sorted(api.get("/api/queues/%2F/q?disable_stats=false")) == KEYS
    assert "messages" not in api.get("/api/vhosts/%2F")
    totals = api.get("/api/queues?enable_queue_totals=true")
    assert (totals[0]["messages"], "policy" in totals[0]) == (0, False)


def test_lengths_may_be_shown_all_the_same(server):
    server = server("management.tcp.port = 0\nmanagement.disable_stats = true\nmanagement.enable_queue_totals = true\n"
                    "cluster_tags.region = eu\nnode_tags.rack = r1\nnode_tags.tier = 2\n")
    server.connect().channel().queue("q", durable=True)
    api = api_of(server)
    overview = api.get("/api/overview")
    assert api.get("/api/queues")[0]["messages"] == 0 and overview["enable_queue_totals"]
    assert (overview["cluster_tags"], overview["node_tags"]) == ({"region": "eu"}, {"rack": "r1", "tier": "2"})


def test_headers_and_the_reference_are_as_configured(server):
    server = server("management.tcp.port = 0\nmanagement.http.hide_allow_header = true\nmanagement.headers.referrer_policy = no-referrer\n"
                    "management.require_auth_for_api_reference = true\nmanagement.definitions.require_json_extension = true\n")
    api = api_of(server)
    answer = api("GET", "/api/overview")
    assert "allow" not in answer.headers and answer.headers["referrer-policy"] == "no-referrer"
    assert answer.json["require_definition_json_extension"] is True
    assert "allow" in api("PATCH", "/api/overview").headers, "who is refused a method is told which there are"
    for path in ["/api/", "/api/openapi.json", "/api/index.html"]:
        assert (api.as_user(None)("GET", path).status, api("GET", path).status) == (401, 200), path
    assert api.as_user(None)("GET", "/api/auth").status == 200


def test_changes_may_be_forbidden_over_http(server):
    """F181, in the words of RabbitMQ 4.3.6."""
    server = server("management.tcp.port = 0\nmanagement.restrictions.quorum_queue_replica_operations.disabled = true\n"
                    "management.restrictions.operator_policy_changes.disabled = true\n")
    api = api_of(server)
    replicas = {"error": "method_not_allowed", "reason": "Broker settings disallow quorum queue replica operations."}
    for method, path in [("POST", "%2F/q/replicas/add"), ("DELETE", "%2F/q/replicas/delete"), ("POST", "replicas/on/x/grow"), ("DELETE", "replicas/on/x/shrink")]:
        answer = api(method, f"/api/queues/quorum/{path}", {})
        assert (answer.status, answer.json) == (405, replicas), path
    policy = "/api/operator-policies/%2F/p"
    for method, body in [("PUT", {"pattern": "x", "definition": {"max-length": 1}}), ("DELETE", None)]:
        answer = api(method, policy, body)
        assert (answer.status, answer.json["reason"]) == (405, "Broker settings disallow editing of operator policies.")
    server.do("set_operator_policy", "p", "x", '{"max-length":1}')
    assert api.get(policy)["name"] == "p"
    value = {"pattern": "x", "definition": {"max-length": 1}, "apply-to": "queues", "priority": 0}
    parameter = lambda name: {"vhost": "/", "component": "operator_policy", "name": name, "value": value}
    for path, name in [("", "by-document"), ("/%2F", "into-vhost")]:
        assert api("POST", f"/api/definitions{path}", {"parameters": [parameter(name)]}).status == 204
        assert api.get(f"/api/operator-policies/%2F/{name}")["name"] == name, "whoever may import definitions may bring them, as in RabbitMQ"


def test_files_of_definitions_may_have_to_be_named_json(server):
    """In the words of RabbitMQ 4.3.6, which takes a document that is no form as ever."""
    api = api_of(server("management.tcp.port = 0\nmanagement.definitions.require_json_extension = true\n"))
    assert api.get("/api/overview")["require_definition_json_extension"] is True
    refused = {"error": "bad_request", "reason": "unsupported_file_extension"}
    for file_name, status, problem in [("d.json", 204, None), ("D.JSON", 204, None), ("d.txt", 400, {**refused, "filename": "d.txt"}), (None, 400, refused)]:
        file_name = f'; filename="{file_name}"' if file_name else ""
        body = f'--B\r\nContent-Disposition: form-data; name="file"{file_name}\r\n\r\n{{}}\r\n--B--'.encode()
        answer = api("POST", "/api/definitions", body, headers={"content-type": "multipart/form-data; boundary=B"})
        assert (answer.status, answer.json if answer.body else None) == (status, problem), file_name
    assert api("POST", "/api/definitions", {}).status == 204


def test_all_of_it_may_be_below_a_path(server):
    """As behind a reverse proxy. Files of the web UI are named from its page on, so the page's address ends with a slash."""
    server = server("management.tcp.port = 0\nmanagement.path_prefix = /rabbit\n")
    api = api_of(server)
    assert api.get("/rabbit/api/overview")["node"] and api("GET", "/api/overview").status == 404
    page = api("GET", "/rabbit/")
    assert page.status == 200 and b"<html" in page.body and page.body == api("GET", "/rabbit/index.html").body
    assert api("GET", "/rabbit").body == page.body, "which the client was sent on to"
    assert api("GET", "/rabbit/ui.js").status == 200 and api("GET", "/ui.js").status == 404 == api("GET", "/").status
    assert api("POST", "/rabbit/", b"x" * 100_000).status == 405, "files are not written"
