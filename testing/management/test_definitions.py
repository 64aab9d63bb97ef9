"""Imports of definitions: objects that they touch, values that they take as they are, and refusals. Compared with 4.3 by hand."""

import http.client
import json

import pytest

V, W = "defs", "defs-other"


@pytest.fixture(autouse=True)
def vhosts(api):
    for vhost in (V, W):
        assert api("PUT", f"/api/vhosts/{vhost}", {}).status == 201
    yield
    for vhost in (V, W):
        assert api("DELETE", f"/api/vhosts/{vhost}").status == 204


def names(api, path):
    return [it["name"] for it in api.get(path) if it["name"] and not it["name"].startswith("amq.")]


def test_definitions_posted_to_a_vhost_stay_in_it(api):
    """A file of a whole node, posted to one vhost, once reset users and filled other vhosts."""
    assert api("PUT", "/api/users/defs-ops", {"password": "old", "tags": "administrator"}).status == 201
    restricted = {"user": "defs-ops", "vhost": W, "exchange": "amq.topic", "write": "", "read": ""}
    limits = {"component": "vhost-limits", "name": "limits", "vhost": W, "value": {"max-queues": 9}}
    document = {
        "users": [{"name": "defs-ops", "password_hash": "", "tags": []}],
        "vhosts": [{"name": "defs-new"}],
        "permissions": [{"user": "defs-ops", "vhost": W, "configure": ".*", "write": ".*", "read": ".*"}],
        "topic_permissions": [restricted],
        "global_parameters": [{"name": "defs-global", "value": 1}],
        "parameters": [limits],
        "policies": [{"vhost": W, "name": "p", "pattern": "a", "definition": {"max-length": 1}, "apply-to": "all", "priority": 0}],
        "queues": [{"name": "orders", "vhost": W, "durable": True, "auto_delete": False, "arguments": {}}],
        "exchanges": [{"name": "ex", "vhost": W, "type": "topic", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}],
        "bindings": [{"source": "ex", "vhost": W, "destination": "orders", "destination_type": "queue", "routing_key": "#", "arguments": {}}],
    }
    assert api("POST", f"/api/definitions/{V}", document).status == 204
    assert names(api, f"/api/queues/{V}") == ["orders"] and names(api, f"/api/queues/{W}") == []
    assert names(api, f"/api/exchanges/{V}") == ["ex"] and names(api, f"/api/exchanges/{W}") == []
    assert "ex" in [it["source"] for it in api.get(f"/api/bindings/{V}")] and api.get(f"/api/bindings/{W}") == []
    assert names(api, f"/api/policies/{V}") == ["p"] and names(api, f"/api/policies/{W}") == []
    assert api.get(f"/api/vhost-limits/{V}") == [{"vhost": V, "value": {"max-queues": 9}}] and api.get(f"/api/vhost-limits/{W}") == []
    assert api.as_user("defs-ops:old").get("/api/whoami")["tags"] == ["administrator"]
    for path in [f"permissions/{W}/defs-ops", f"topic-permissions/{W}/defs-ops", f"topic-permissions/{V}/defs-ops", "vhosts/defs-new", "global-parameters/defs-global"]:
        assert api("GET", f"/api/{path}").status == 404, path
    assert api("DELETE", "/api/users/defs-ops").status == 204


def test_what_is_left_out_of_a_file_written_by_hand_is_as_in_rabbitmq(api):
    binding = {"source": "x", "vhost": V, "destination": "q", "destination_type": "queue", "routing_key": "k"}
    document = {
        "queues": [{"name": "q", "vhost": V}, {"name": "listed", "vhost": V, "arguments": []}],
        "exchanges": [{"name": "x", "vhost": V, "type": "topic"}],
        "bindings": [binding, {**binding, "routing_key": "l", "arguments": []}, {**binding, "source": "", "routing_key": "q"}],
        "policies": [{"name": "p", "vhost": V, "pattern": "a", "definition": {"max-length": 1}}],
    }
    assert api("POST", "/api/definitions", document).status == 204
    queue, exchange = api.get(f"/api/queues/{V}/q"), api.get(f"/api/exchanges/{V}/x")
    assert (queue["durable"], queue["auto_delete"], queue["arguments"]) == (True, False, {"x-queue-type": "classic"})
    assert (exchange["durable"], exchange["auto_delete"], exchange["internal"], exchange["arguments"]) == (True, False, False, {})
    assert sorted((it["source"], it["routing_key"]) for it in api.get(f"/api/queues/{V}/q/bindings")) == [("", "q"), ("x", "k"), ("x", "l")]
    assert api("POST", "/api/definitions", b"").status == 204, "nothing at all is a document without anything"
    for queues in [[{"name": "n", "vhost": V, "arguments": None}], [{"name": "n", "vhost": V, "durable": None}], [{"vhost": V}]]:
        assert api("POST", "/api/definitions", {"queues": queues}).status == 400, queues
    without_key = {name: value for name, value in binding.items() if name != "routing_key"}
    assert api("POST", "/api/definitions", {"bindings": [without_key]}).status == 400


def test_an_import_does_not_walk_past_the_limit_of_a_vhost(api):
    assert api("PUT", f"/api/vhost-limits/{V}/max-queues", {"value": 3}).status == 204
    queues = lambda count: [{"name": f"q{number}", "vhost": V} for number in range(count)]
    assert api("POST", "/api/definitions", {"queues": queues(2)}).status == 204
    for path, document in [("", {"queues": queues(7)}), (f"/{V}", {"queues": queues(7), "vhosts": [{"name": "defs-new"}]})]:
        answer = api("POST", f"/api/definitions{path}", document)
        text = f'Adding 5 queue(s) to virtual host "{V}" would exceed the limit of 3 queue(s).\n\nThis virtual host currently has 2 queue(s) defined.\n\nImport aborted!'
        assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": text})
    assert len(names(api, f"/api/queues/{V}")) == 2
    assert api("POST", "/api/definitions", {"queues": queues(3)}).status == 204, "those that are there do not count"
    lifted = {"component": "vhost-limits", "name": "limits", "vhost": V, "value": {"max-queues": 70}}
    assert api("POST", "/api/definitions", {"queues": queues(5), "parameters": [lifted]}).status == 400, "nor do limits that come along"


def test_topic_permissions_are_for_exchanges_that_are_there(api):
    restricted = lambda exchange: {"topic_permissions": [{"user": "guest", "vhost": V, "exchange": exchange, "write": "", "read": ""}]}
    answer = api("POST", "/api/definitions", {**restricted("nox"), "queues": [{"name": "q", "vhost": V}]})
    assert answer.status == 400 and "exchange 'nox' does not exist" in answer.json["reason"]
    assert api.get(f"/api/queues/{V}") == [] and api.get(f"/api/vhosts/{V}/topic-permissions") == []
    unnamed = {"topic_permissions": [{"user": "guest", "vhost": V, "write": "", "read": ""}], "queues": [{"name": "q", "vhost": V}]}
    answer = api("POST", "/api/definitions", unnamed)
    assert (answer.status, answer.json["reason"]) == (400, "topic permissions of user 'guest': exchange is missing")
    assert api.get(f"/api/queues/{V}") == [] and api.get(f"/api/vhosts/{V}/topic-permissions") == []
    for exchange in ["", "amq.topic", "with"]:
        assert api("POST", "/api/definitions", {**restricted(exchange), "exchanges": [{"name": "with", "vhost": V, "type": "topic"}]}).status == 204


@pytest.mark.parametrize("path", ["/api/definitions", f"/api/definitions/{V}"])
def test_policies_with_patterns_that_cannot_be_used_refuse_a_document_or_are_left_out(api, path):
    """RabbitMQ takes both."""
    policy = lambda name, pattern: {"vhost": V, "name": name, "pattern": pattern, "definition": {"max-length": 1}, "priority": 0, "apply-to": "queues"}
    operator = {"vhost": V, "component": "operator_policy", "name": "o", "value": policy("o", "(a)?(?(1)b|c)")}
    document = {"policies": [policy("p", "(?R)"), policy("kept", "^k")], "parameters": [operator], "queues": [queue("q")]}
    reason = api("POST", path, document).json["reason"]
    assert "1 policy, 1 operator policy, which Warren does not have yet (policy 'p'" in reason and "?skip_unsupported=true" in reason, reason
    assert api.get(f"/api/queues/{V}") == [] and api.get(f"/api/policies/{V}") == []
    assert api("POST", f"{path}?skip_unsupported=true", document).status == 204
    assert names(api, f"/api/policies/{V}") == ["kept"] and names(api, f"/api/queues/{V}") == ["q"] and api.get(f"/api/operator-policies/{V}") == []


def queue(name, vhost=V, **more):
    return {"name": name, "vhost": vhost, "durable": True, "auto_delete": False, "arguments": {}, **more}


def test_a_routing_key_that_is_null_is_imported_as_the_empty_one(api):
    """RabbitMQ keeps null of `POST /api/bindings/...` with `{"routing_key": null}`, exports it, and takes it back for exchanges that do not read it."""
    binding = {"source": "amq.fanout", "vhost": V, "destination": "q", "destination_type": "queue", "routing_key": None, "arguments": {}}
    assert api("POST", "/api/definitions", {"queues": [queue("q")], "bindings": [binding]}).status == 204
    assert [it["routing_key"] for it in api.get(f"/api/queues/{V}/q/bindings") if it["source"]] == [""]


def test_an_unknown_hashing_algorithm_says_nothing_of_a_password(api):
    """RabbitMQ hashes passwords its own way, too; a hash of such an algorithm it takes, and nobody can log in."""
    user = {"name": "defs-hashed", "tags": ["management"], "hashing_algorithm": "nope"}
    refused = api("POST", "/api/definitions", {"users": [{**user, "password_hash": "AAAAAAAA"}]})
    assert (refused.status, refused.json["reason"]) == (400, "user 'defs-hashed': unknown hashing algorithm 'nope'")
    assert api("POST", "/api/definitions", {"users": [{**user, "password": "pw"}]}).status == 204
    assert api.as_user("defs-hashed:pw").get("/api/whoami")["name"] == "defs-hashed"
    assert api("DELETE", "/api/users/defs-hashed").status == 204


def test_a_byte_order_mark_is_no_part_of_a_document(api):
    body = b"\xef\xbb\xbf" + json.dumps({"queues": [queue("marked")]}).encode()
    assert api("POST", "/api/definitions", body).status == 204 and names(api, f"/api/queues/{V}") == ["marked"]


def test_of_names_that_stand_twice_in_an_object_the_first_counts(api):
    one, two = (json.dumps(queue(name)) for name in ("one", "two"))
    assert api("POST", "/api/definitions", f'{{"queues": [{one}], "queues": [{two}]}}'.encode()).status == 204
    assert names(api, f"/api/queues/{V}") == ["one"]
    assert api("PUT", f"/api/queues/{V}/put", b'{"arguments": {"x-max-length": 1, "x-max-length": 2}, "arguments": {}}').status == 201
    assert api.get(f"/api/queues/{V}/put")["arguments"]["x-max-length"] == 1


@pytest.mark.parametrize("passed_over", (
    {"users": 5}, {"users": [{"name": 7}]}, {"vhosts": "x"}, {"permissions": [1]}, {"topic_permissions": {}}, {"global_parameters": [{"name": 5}]},
    {"rabbitmq_version": 5}, {"policies": [{"vhost": 5, "name": "p", "pattern": "b", "definition": {"max-length": 2}}]},
))
def test_what_one_vhost_passes_over_is_not_read(api, passed_over):
    assert api("POST", f"/api/definitions/{V}", {"queues": [queue("into", vhost=7)], **passed_over}).status == 204
    assert names(api, f"/api/queues/{V}") == ["into"]


def test_limits_that_a_document_brings_hold_for_its_queues(api):
    """As in 4.3, where queues are declared after limits are set; there nobody is told of those that are missing."""
    limits = {"component": "vhost-limits", "name": "limits", "vhost": V, "value": {"max-queues": 2}}
    binding = {"source": "amq.direct", "vhost": V, "destination": "q3", "destination_type": "queue", "routing_key": "k", "arguments": {}}
    document = {"parameters": [limits], "queues": [queue(f"q{nth}") for nth in (1, 1, 2, 3, 3)] + [queue("free", W)], "bindings": [binding]}
    assert api("POST", "/api/definitions", document).status == 204
    assert (names(api, f"/api/queues/{V}"), names(api, f"/api/queues/{W}")) == (["q1", "q2"], ["free"])
    assert api("POST", "/api/definitions", document).status == 400, "the limit is there now, and was not before"
    assert api("PUT", f"/api/vhost-limits/{V}/max-queues", {"value": -1}).status == 204
    raised = {**document, "parameters": [{**limits, "value": {"max-queues": 3}}]}
    assert api("POST", "/api/definitions", raised).status == 204 and names(api, f"/api/queues/{V}") == ["q1", "q2", "q3"]


@pytest.mark.parametrize("kind", ["users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters", "policies"])
def test_entries_that_are_null_are_passed_over_and_lists_that_are_null_are_refused(api, kind):
    assert api("POST", "/api/definitions", {kind: [None], "queues": [queue("q")]}).status == 204 and names(api, f"/api/queues/{V}") == ["q"]
    assert api("POST", "/api/definitions", {kind: None}).status == 400


@pytest.mark.parametrize("field,value", [("metadata", None), ("metadata", "x"), ("metadata", []), ("tags", None), ("description", None), ("default_queue_type", None)])
def test_null_in_a_vhost_says_nothing(api, field, value):
    assert api("POST", "/api/definitions", {"vhosts": [{"name": V, field: value}]}).status == 204
    vhost = api.get(f"/api/vhosts/{V}")
    assert (vhost["tags"], vhost["description"], vhost["default_queue_type"]) == ([], "", "classic")


def test_null_in_flags_is_taken_for_exchanges_and_refused_for_queues(api):
    exchange = {"name": "x", "vhost": V, "type": "topic", "durable": None, "auto_delete": None, "internal": None}
    assert api("POST", "/api/definitions", {"exchanges": [exchange]}).status == 204
    made = api.get(f"/api/exchanges/{V}/x")
    assert (made["durable"], made["auto_delete"], made["internal"]) == (True, False, False)
    for kind, entry in [("queues", {"auto_delete": None}), ("queues", {"arguments": None}), ("exchanges", {"type": "topic", "arguments": None})]:
        assert api("POST", "/api/definitions", {kind: [{"name": "n", "vhost": V, **entry}]}).status == 400, (kind, entry)


@pytest.mark.parametrize("kind,entry", [
    ("queues", {"name": "q"}), ("queues", {"name": "q", "vhost": None}), ("exchanges", {"name": "x", "type": "topic"}), ("policies", {"name": "p", "pattern": "a", "definition": {"max-length": 1}}),
    ("bindings", {"source": "amq.topic", "destination": "there", "destination_type": "queue", "routing_key": "k"}), ("permissions", {"user": "guest", "configure": "", "write": "", "read": ""}),
    ("topic_permissions", {"user": "guest", "exchange": "amq.topic", "write": "", "read": ""}), ("parameters", {"component": "vhost-limits", "name": "limits", "value": {"max-queues": 9}})])
def test_entries_of_a_whole_nodes_document_name_their_vhost(api, kind, entry):
    """RabbitMQ answers 500 or 400, and has applied what came before; here nothing is applied and the entry is named."""
    answer = api("POST", "/api/definitions", {"queues": [queue("there")], kind: [*([queue("there")] if kind == "queues" else []), entry]})
    assert answer.status == 400 and "names no vhost" in answer.json["reason"] and "/api/definitions/VHOST" in answer.json["reason"], answer
    assert names(api, f"/api/queues/{V}") == []
    ours = {kind: [entry]} if kind == "queues" else {"queues": [queue("there")], kind: [entry]}
    assert api("POST", f"/api/definitions/{V}", ours).status == 204 and len(names(api, f"/api/queues/{V}")) == 1


def test_a_wrong_type_is_told_with_the_entry_and_its_field(api):
    answer = api("POST", "/api/definitions", {"queues": [queue("fine"), queue("bad", durable="yes")]})
    assert answer.status == 400 and answer.json["reason"] == f"queue 'bad' in vhost '{V}': 'durable': invalid type: string \"yes\", expected a boolean"
    assert names(api, f"/api/queues/{V}") == []


@pytest.mark.parametrize("name", [None, True, False])
def test_global_parameters_called_as_words_of_json_come_in(api, name):
    """RabbitMQ 4.3 has taken `set_global_parameter null 1`, and its export has the name without quotes."""
    word, other = json.dumps(name), {"name": "defs-other", "value": [1]}
    assert api("POST", "/api/definitions", {"global_parameters": [{"name": name, "value": {"a": None}}, other]}).status == 204
    assert api.get(f"/api/global-parameters/{word}") == {"name": word, "value": {"a": None}} and api.get("/api/global-parameters/defs-other") == other
    for left in (word, "defs-other"):
        assert api("DELETE", f"/api/global-parameters/{left}").status == 204


def form(*fields, boundary="----form"):
    """A body of a browser's form, and its media type: fields are (name, file name or None, content)."""
    lines = []
    for name, file_name, content in fields:
        file_name = f'; filename="{file_name}"\r\nContent-Type: application/json' if file_name else ""
        lines.append(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{file_name}\r\n\r\n{content}\r\n')
    return "".join([*lines, f"--{boundary}--\r\n"]).encode(), f"multipart/form-data; boundary={boundary}"


def post(api, path, body, media_type):
    return api("POST", path, body, headers={"content-type": media_type})


def test_definitions_come_as_the_file_of_a_form(api, broker):
    """As `curl -F file=@definitions.json` and the import of RabbitMQ's page send them."""
    document = lambda *queues: json.dumps({"queues": list(queues)})
    assert post(api, "/api/definitions", *form(("file", "d.json", document(queue("one", W))))).status == 204
    assert post(api, f"/api/definitions/{V}", *form(("vhost", None, W), ("file", "d.txt", document(queue("two", W))))).status == 204
    assert (names(api, f"/api/queues/{W}"), names(api, f"/api/queues/{V}")) == (["one"], ["two"])
    body, media_type = form(("file", "d.json", document(queue("three"))), ("redirect", None, "../#/import-succeeded"))
    connection = http.client.HTTPConnection(*broker.address)
    connection.request("POST", "/api/definitions", body, {"content-type": media_type, "authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
    answer = connection.getresponse()
    assert (answer.status, answer.headers["location"]) == (303, "../#/import-succeeded")
    connection.close()
    twice = form(("file", None, document(queue("first"))), ("file", None, document(queue("last"))))
    assert post(api, "/api/definitions", *twice).status == 204
    assert names(api, f"/api/queues/{V}") == ["last", "three", "two"]
    assert post(api, "/api/definitions", *form(("file", None, ""))).status == 204
    assert post(api, "/api/definitions/nope", *form(("file", None, "{}"))).json == {"error": "not_found", "reason": "vhost_not_found"}


def test_forms_without_a_document_are_refused(api):
    unread = {"error": "bad_request", "reason": "failed_to_parse_json"}
    for fields in [[("other", "d.json", "{}")], [("file", None, "[]")], [("file", "d.json", "{bad"), ("redirect", None, "x")], []]:
        answer = post(api, "/api/definitions", *form(*fields))
        assert (answer.status, answer.json) == (400, unread), fields
    body, media_type = form(("file", "d.json", json.dumps({"queues": [queue("never")]})))
    for body, media_type in [(body, "multipart/form-data"), (body, "multipart/form-data; boundary=other"), (body[:-10], media_type), (b"", media_type), (b"{}", media_type)]:
        answer = post(api, "/api/definitions", body, media_type)
        assert answer.status == 400 and set(answer.json) == {"error", "reason"}, (body, answer)
    large, media_type = form(("file", "d.json", " " * (21 << 20)))
    assert "size limit" in post(api, "/api/definitions", large, media_type).json["reason"]
    assert names(api, f"/api/queues/{V}") == []
