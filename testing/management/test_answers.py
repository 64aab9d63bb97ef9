"""How answers travel: compressed, and not again when the client has them; and logins as they are counted."""

import gzip
import json

import pika
import pytest


def test_answers_are_compressed_for_those_who_take_it(api):
    gzipped = {"accept-encoding": "gzip"}
    for path in ["/api/overview", "/api/definitions", "/api/exchanges", "/api/openapi.json"]:
        answer = api("GET", path, headers=gzipped)
        assert answer.status == 200 and answer.headers["content-encoding"] == "gzip", (path, answer)
        assert json.loads(gzip.decompress(answer.body)), path
        assert "content-encoding" not in api("GET", path, headers={"accept-encoding": "gzip;q=0, identity"}).headers
    assert "content-encoding" not in api("GET", "/api/whoami", headers=gzipped).headers, "too short to be worth it"
    assert "content-encoding" not in api("GET", "/api/nope", headers=gzipped).headers


def test_definitions_that_the_client_has_are_not_sent_again(api):
    for path in ["/api/definitions", "/api/definitions/%2F"]:
        answer = api("GET", path)
        etag = answer.headers["etag"]
        again = api("GET", path, headers={"if-none-match": etag})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
        assert api("GET", path, headers={"if-none-match": '"other"'}).status == 200
        assert api("PUT", "/api/queues/%2F/etag", {"durable": True}).status == 201
        changed = api("GET", path, headers={"if-none-match": etag})
        assert changed.status == 200 and changed.headers["etag"] != etag
        api("DELETE", "/api/queues/%2F/etag")
        assert api("GET", path).headers["etag"] == etag


def test_what_a_list_is_sorted_by_is_not_deep(api):
    assert api("GET", "/api/queues?sort=a.b.c.d.e.f.g.h").status == 200
    for path in ["a.b.c.d.e.f.g.h.i", "name," + "." * 6000]:
        refused = api("GET", f"/api/queues?sort={path}")
        assert (refused.status, refused.json) == (400, {"error": "bad_request", "reason": "names in sort have at most 8 parts"})


def test_logins_are_counted_by_protocol_and_set_back(api):
    node = api.get("/api/overview")["node"]
    path = f"/api/auth/attempts/{node}"
    assert api("DELETE", path).status == 204
    assert api.as_user("guest:wrong")("GET", "/api/whoami").status == 401
    counted = {one.pop("protocol"): one for one in api.get(path)}
    assert counted["http"] == {"auth_attempts": 2, "auth_attempts_failed": 1, "auth_attempts_succeeded": 1}
    assert api.get(f"{path}/source") == []
    assert api("DELETE", f"{path}/source").status == 204
    for method in ["GET", "DELETE"]:
        assert api(method, "/api/auth/attempts/nope").status == 404


def test_logins_are_told_apart_by_source_while_somebody_wants_to_know(api, broker):
    node = api.get("/api/overview")["node"]
    path = f"/api/auth/attempts/{node}/source"
    assert broker.ctl("enable_auth_attempt_source_tracking") == "Enabling authentication attempt source tracking ...\n"
    try:
        assert "Reset auth attempt metrics on node" in broker.ctl("reset_node_auth_attempt_metrics")
        assert api.as_user("nobody:x")("GET", "/api/whoami").status == 401
        assert api.as_user("guest:wrong")("GET", "/api/whoami").status == 401
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            pika.BlockingConnection(pika.URLParameters(broker.amqp.replace("guest:guest", "guest:wrong")))
        shown = {(one["username"], one["protocol"]): one for one in api.get(path)}
        of_guest = {"remote_address": "127.0.0.1", "username": "guest", "protocol": "http", "auth_attempts": 2, "auth_attempts_failed": 1,
                    "auth_attempts_succeeded": 1}
        assert shown["guest", "http"] == of_guest, "what RabbitMQ 4.3.6 shows"
        assert (shown["guest", "amqp091"]["auth_attempts_failed"], shown["nobody", "http"]["auth_attempts_failed"]) == (1, 1)
    finally:
        broker.ctl("disable_auth_attempt_source_tracking")
    before = api.get(path)
    assert api.get(path) == before, "nothing is recorded any more, and what was stays"
    assert api("DELETE", path).status == 204
    assert api.get(path) == []


def test_files_of_the_web_ui_come_as_the_client_takes_them(api):
    gzipped = api("GET", "/ui.js", headers={"accept-encoding": "gzip"})
    assert gzipped.headers["content-encoding"] == "gzip" and "accept-encoding" in gzipped.headers["vary"].lower()
    for taken in [{}, {"accept-encoding": "identity"}, {"accept-encoding": "gzip;q=0"}]:
        plain = api("GET", "/ui.js", headers=taken)
        assert "content-encoding" not in plain.headers and plain.body == gzip.decompress(gzipped.body), taken
        assert plain.headers["etag"] != gzipped.headers["etag"]
        assert api("GET", "/ui.js", headers={**taken, "if-none-match": plain.headers["etag"]}).status == 304


def test_the_reference_names_the_parameters_of_routes_that_are_no_lists(api):
    paths = api.get("/api/openapi.json")["paths"]
    names = lambda method, path: [one["name"] for one in paths[path][method]["parameters"] if one["in"] == "query"]
    assert names("post", "/api/definitions") == ["skip_unsupported", "report"] and names("get", "/api/definitions") == ["download"]
    assert names("delete", "/api/queues/{vhost}/{name}") == ["if-unused", "if-empty"]
    assert "pagination" in names("get", "/api/queues") and names("get", "/api/whoami") == ["permissions"]
