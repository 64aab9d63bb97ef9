"""Requests that hardly make sense, answered with the statuses of RabbitMQ 4.3.6; where it answers 500, or Warren differs on purpose, see docs/compatibility.md."""

import base64
import json

import pytest

V = "odd"
MESSAGE = {"routing_key": "q", "properties": {}, "payload": "p", "payload_encoding": "string"}
GET = {"ackmode": "ack_requeue_true", "count": 1, "encoding": "auto"}
PUBLISH, TAKE, POLICY = f"/api/exchanges/{V}/amq.default/publish", f"/api/queues/{V}/q/get", f"/api/policies/{V}/p"

pytestmark = pytest.mark.usefixtures("vhost_with_q")


def basic(plain):
    return "Basic " + base64.b64encode(plain).decode()


@pytest.mark.parametrize("login,status", [
    ("", 400), ("x", 400), ("Basic", 400), ("Bearer", 400), ("Basic !", 400), (basic(b"guest"), 400), (basic(b"guest:guest") + "x", 400),
    ("Bearer x", 401), ("Digest a=b", 401), (basic(b":"), 401), (basic(b"guest:wrong"), 401), (basic(b"\xff:x"), 401),
    (basic(b"guest:guest").replace("Basic", "basic"), 200), (basic(b"guest:guest") + " ", 200)])
def test_a_login_that_cannot_be_read_is_told_from_a_wrong_one(api, login, status):
    answer = api.as_user(None)("GET", "/api/whoami", headers={"authorization": login})
    assert answer.status == status, answer


@pytest.mark.parametrize("accept,status", [
    ("*/*", 200), ("application/json", 200), ("application/*", 200), ("text/html, */*;q=0.1", 200), ("application/json;q=0", 200),
    ("text/html", 406), ("text/*", 406), ("image/png", 406), ("application/xml", 406), ("", 406), ("nonsense", 400)])
def test_who_takes_no_json_gets_none_and_nothing_is_done_for_him(api, accept, status):
    headers = {"accept": accept}
    for path in ["/api/overview", f"/api/queues/{V}/q", "/api/definitions", "/api/health/checks/alarms"]:
        assert api("GET", path, headers=headers).status == status, path
    assert api("PUT", f"/api/queues/{V}/q", {"durable": True}, headers=headers).status == (204 if status == 200 else status)
    api("DELETE", f"/api/queues/{V}/new", headers=headers)
    api("PUT", f"/api/queues/{V}/new", {"durable": True}, headers=headers)
    assert api("GET", f"/api/queues/{V}/new").status == (200 if status == 200 else 404)
    api("DELETE", f"/api/queues/{V}/new")


def test_pages_and_pictures_are_not_json_and_go_to_who_takes_them(api):
    for path, accept in [("/", "text/html"), ("/api/index.html", "text/html"), ("/api/profile/cpu?seconds=1&as=svg", "image/svg+xml")]:
        answer = api("GET", path, headers={"accept": accept})
        assert answer.status == 200 and accept in answer.headers["content-type"], (path, answer)


@pytest.mark.parametrize("check,status", [
    ("port-listener/99999", 503), ("port-listener/-1", 503), ("port-listener/65536", 503), ("port-listener/99999999999999999999", 503),
    ("port-listener/abc", 400), ("port-listener/1e3", 400), ("certificate-expiration/-1/days", 200), ("certificate-expiration/999999999999/weeks", 200),
    ("certificate-expiration/1/DAYS", 200), ("certificate-expiration/1/nope", 400), ("certificate-expiration/1.5/days", 400)])
def test_numbers_of_checks_have_no_bounds(api, check, status):
    answer = api("GET", f"/api/health/checks/{check}")
    assert answer.status == status and (status != 503 or str(answer.json["missing"]) == check.rsplit("/", 1)[1]), answer


@pytest.mark.parametrize("count,taken", [(0, 0), (1, 1), (2, 2), ("2", 2), (-1, 3), (1.5, 3), (1e20, 3), (10**30, 3), (2**63, 3), (-10**30, 3)])
def test_a_count_that_nobody_reaches_takes_all_there_is(api, count, taken):
    api("DELETE", f"/api/queues/{V}/q/contents")
    for _ in range(3):
        assert api("POST", PUBLISH, MESSAGE).json == {"routed": True}
    answer = api("POST", TAKE, {**GET, "count": count})
    assert answer.status == 200 and len(answer.json) == taken, answer
    assert len(api("POST", TAKE, {**GET, "count": 10}).json) == 3, "they went back"


@pytest.mark.parametrize("properties,shown", [
    ({"priority": 300}, {"priority": 44}), ({"priority": -1}, {"priority": 255}), ({"delivery_mode": 258}, {"delivery_mode": 2}),
    ({"timestamp": 2**63}, {"timestamp": 2**63}), ({"priority": None}, ["not_int", "priority"]), ({"priority": "1"}, ["not_int", "priority"]),
    ({"priority": 1.5}, ["not_int", "priority"]), ({"timestamp": None}, ["not_int", "timestamp"]), ({"content_type": None}, ["not_string", "content_type"])])
def test_numbers_of_properties_lose_what_they_have_no_room_for(api, properties, shown):
    api("DELETE", f"/api/queues/{V}/q/contents")
    answer = api("POST", PUBLISH, {**MESSAGE, "properties": properties})
    if isinstance(shown, list):
        assert (answer.status, answer.json["reason"]) == (400, shown)
    else:
        assert answer.json == {"routed": True} and api("POST", TAKE, GET).json[0]["properties"] == shown


@pytest.mark.parametrize("priority,kept", [(5.0, 5), (1e3, 1000), (-3, -3), (5.5, None), (1e300, None), ("1", None), (None, None), (True, None)])
def test_a_priority_is_whole_however_it_is_written(api, priority, kept):
    answer = api("PUT", POLICY, {"pattern": "^x", "definition": {"max-length": 5}, "priority": priority})
    assert answer.status == (400 if kept is None else 201), answer
    assert kept is None or api.get(POLICY)["priority"] == kept
    api("DELETE", POLICY)


@pytest.mark.parametrize("method,path,status", [
    ("GET", "/api/overview?%zz", 400), ("GET", f"/api/queues/{V}?name=50%", 400), ("GET", "/api/overview?a=%41", 200), ("FOO", "/api/overview", 501),
    ("TRACE", f"/api/queues/{V}", 501), ("PATCH", "/api/overview", 405), ("GET", f"/api/queues/{V}?columns=" + "a." * 63 + "a", 200),
    ("GET", f"/api/queues/{V}?columns=" + "a." * 64 + "a", 400), ("GET", f"/api/queues/{V}/q?columns=" + "." * 6000, 400)])
def test_odd_lines_of_requests(api, method, path, status):
    assert api(method, path).status == status


@pytest.mark.parametrize("body", ["null", " null ", '{"zzz": DEEP}', '{"zzz": [DEEP, {"a": DEEP}]}', '{"zzz": FAR}', '{"durable": true, "zzz": {"durable": FAR}}'])
def test_a_body_that_says_nothing_of_note_is_taken(api, body):
    """`null` is as no body at all, and what nobody asks for may be nested as deep as it likes."""
    body = body.replace("DEEP", '{"a":' * 300 + "1" + "}" * 300).replace("FAR", "[" * 100_000 + "]" * 100_000).encode()
    for method, path, statuses in [("PUT", f"/api/queues/{V}/nothing", (201, 204)), ("PUT", f"/api/exchanges/{V}/nothing", (201, 204)), ("PUT", f"/api/vhosts/{V}-nothing", (201, 204)),
                                   ("POST", f"/api/bindings/{V}/e/amq.topic/q/q", (201,)), ("DELETE", f"/api/vhosts/{V}-nothing", (204,))]:
        answer = api(method, path, body)
        assert answer.status in statuses, (path, answer)
    assert api.get(f"/api/queues/{V}/nothing")["durable"] is (b"durable" in body)
    for method, path, missing in [("PUT", f"/api/permissions/{V}/guest", "configure"), ("PUT", POLICY, "pattern"), ("POST", TAKE, "ackmode"), ("PUT", "/api/global-parameters/odd", "value")]:
        answer = api(method, path, body)
        assert answer.status == 400 and answer.json["reason"].startswith(f"[{{key_missing,{missing}}}"), (path, answer)
    assert api("PUT", "/api/users/odd", body).json["reason"] == "tags_not_present"
    if b"zzz" in body:
        for path in ("/api/definitions", f"/api/definitions/{V}"):
            assert api("POST", path, body).status == 204
    for made in ("queues", "exchanges"):
        assert api("DELETE", f"/api/{made}/{V}/nothing").status == 204


@pytest.mark.parametrize("levels", [89, 90, 99, 100, 300, 100_000])
def test_what_is_kept_is_kept_whole_or_refused(api, levels):
    deep = "[" * levels + "]" * levels
    answers = [api("PUT", "/api/global-parameters/odd", f'{{"value": {deep}}}'.encode()), api("POST", "/api/definitions", f'{{"global_parameters": [{{"name": "odd", "value": {deep}}}]}}'.encode())]
    if levels <= 89:
        assert [answer.status for answer in answers] == [201, 204] and json.dumps(api.get("/api/global-parameters/odd")["value"]) == deep
        assert deep.encode() in api("GET", "/api/definitions").body
        assert api("DELETE", "/api/global-parameters/odd").status == 204
    else:
        assert all(answer.status == 400 and "nested deeper than 89" in answer.json["reason"] for answer in answers), answers
    for method, path, body in [("PUT", f"/api/queues/{V}/deep", '{"arguments": {"a": DEEP}}'), ("POST", PUBLISH, json.dumps({**MESSAGE, "properties": {"headers": {"a": "D"}}}).replace('"D"', "DEEP")),
                               ("PUT", f"/api/parameters/shovel/{V}/s", '{"value": {"src-uri": "amqp://", "dest-uri": "amqp://", "src-queue": "a", "dest-queue": "b", "internal_owner": DEEP}}')]:
        answer = api(method, path, body.replace("DEEP", deep).encode())
        assert answer.status == 400 and "nested deeper" in answer.json["reason"], (path, answer)


@pytest.mark.parametrize("body", ["[]", "5", '"x"', "true", "[{}]", " ", "{} x", "nul", "[" * 1000])
def test_a_body_that_is_no_object_is_refused(api, body):
    for method, path in [("PUT", f"/api/queues/{V}/none"), ("PUT", f"/api/exchanges/{V}/none"), ("POST", f"/api/bindings/{V}/e/amq.topic/q/q"), ("PUT", f"/api/vhosts/{V}")]:
        answer = api(method, path, body.encode())
        assert (answer.status, answer.json["reason"]) == (400, "not_json"), (path, answer)


def test_a_refusal_does_not_repeat_all_that_was_sent(api):
    long = "(" + "x" * 200_000
    for method, path, body in [
            ("PUT", f"/api/permissions/{V}/guest", {"configure": long, "write": "", "read": ""}), ("PUT", f"/api/vhosts/{V}", {"tags": [[long]]}),
            ("PUT", f"/api/queues/{V}/q", {"durable": {"a": [long]}}), ("POST", TAKE, {**GET, "ackmode": long}), ("PUT", POLICY, {"pattern": "a", "definition": long}),
            ("POST", PUBLISH, {**MESSAGE, "payload": long, "payload_encoding": "base64"}), ("POST", "/api/users/bulk-delete", {"users": [[long]]})]:
        answer = api(method, path, body)
        assert answer.status == 400 and len(answer.body) < 10_000, (path, answer)
