"""Rights of users on each route."""

import base64

import pytest

V = "access"


@pytest.fixture(scope="module", autouse=True)
def users(api):
    assert api("PUT", f"/api/vhosts/{V}", {}).status == 201
    for tag in ["administrator", "monitoring", "policymaker", "management", ""]:
        assert api("PUT", f"/api/users/u-{tag}", {"password": "pw", "tags": tag}).status == 201
    for tag in ["policymaker", "management"]:
        body = {"configure": "^mine", "write": ".*", "read": ".*"}
        assert api("PUT", f"/api/permissions/{V}/u-{tag}", body).status == 201
    yield
    assert api("DELETE", f"/api/vhosts/{V}").status == 204
    users = [f"u-{tag}" for tag in ["administrator", "monitoring", "policymaker", "management", ""]]
    assert api("POST", "/api/users/bulk-delete", {"users": users}).status == 204


ALLOWED = [
    # path, administrator, monitoring, policymaker, management
    ("/api/overview", 200, 200, 200, 200),
    ("/api/whoami", 200, 200, 200, 200),
    ("/api/nodes", 200, 200, 401, 401),
    ("/api/users", 200, 401, 401, 401),
    ("/api/permissions", 200, 401, 401, 401),
    ("/api/definitions", 200, 401, 401, 401),
    (f"/api/queues/{V}", 200, 404, 200, 200),       # monitors look into the vhosts that they may open only
    (f"/api/exchanges/{V}", 200, 404, 200, 200),
    (f"/api/bindings/{V}", 200, 404, 200, 200),
    (f"/api/vhosts/{V}", 200, 401, 401, 401),
    (f"/api/vhosts/{V}/connections", 200, 404, 200, 200),
    (f"/api/vhost-limits/{V}", 200, 200, 200, 200),
    (f"/api/policies/{V}", 200, 404, 200, 200),
    (f"/api/policies/{V}/nop", 404, 401, 404, 401),
    (f"/api/operator-policies/{V}", 200, 404, 200, 200),
    (f"/api/operator-policies/{V}/nop", 404, 401, 401, 401),
    (f"/api/aliveness-test/{V}", 401, 404, 200, 200),
    ("/api/user-limits", 200, 401, 401, 401),
    ("/api/user-limits/u-management", 200, 200, 401, 200),
    ("/api/connections/username/u-management", 200, 200, 401, 200),
    ("/api/users/u-management/queues", 200, 200, 200, 200),
    ("/api/queues/%2F", 200, 404, 404, 404),
    ("/api/parameters", 200, 401, 200, 401),
    ("/api/global-parameters", 200, 401, 200, 401),
    ("/api/connections", 200, 200, 200, 200),
    ("/api/config/effective", 200, 401, 401, 401),
]


@pytest.mark.parametrize("path,administrator,monitoring,policymaker,management", ALLOWED)
def test_tags_open_routes(api, path, administrator, monitoring, policymaker, management):
    for tag, status in [("administrator", administrator), ("monitoring", monitoring), ("policymaker", policymaker), ("management", management)]:
        answer = api.as_user(f"u-{tag}:pw")("GET", path)
        assert answer.status == status, (tag, answer)
        if status >= 400:
            assert set(answer.json) == {"error", "reason"}


def test_a_user_without_a_tag_gets_nothing(api):
    answer = api.as_user("u-:pw")("GET", "/api/overview")
    assert answer.status == 401 and answer.json == {"error": "not_authorised", "reason": "Not management user"}


def test_vhosts_that_a_user_may_not_open_are_not_listed(api):
    names = lambda tag: [vhost["name"] for vhost in api.as_user(f"u-{tag}:pw").get("/api/vhosts?columns=name")]
    assert names("management") == [V] and "/" in names("monitoring")


def test_whoever_asks_is_told_what_they_may_do_and_only_when_they_ask(api):
    user = api.as_user("u-management:pw")
    assert set(user.get("/api/whoami")) == {"name", "tags", "is_internal_user"}
    told = user.get("/api/whoami?permissions=true")["permissions"]
    assert told == api.get("/api/users/u-management/permissions") and [it["vhost"] for it in told] == [V]
    assert api.as_user("u-monitoring:pw").get("/api/whoami?permissions=true")["permissions"] == []


def test_lists_hold_what_is_in_vhosts_that_a_user_may_open(api):
    assert api("PUT", f"/api/queues/{V}/listed", {"durable": True}).status == 201
    for tag, seen in [("administrator", True), ("monitoring", False), ("policymaker", True), ("management", True)]:
        user = api.as_user(f"u-{tag}:pw")
        for path in ["/api/queues", "/api/exchanges", "/api/bindings"]:
            assert (V in [it["vhost"] for it in user.get(path)]) is seen, (tag, path)
        assert user.get("/api/overview")["object_totals"]["queues"] >= (tag != "monitoring")
    assert api.as_user("u-monitoring:pw").get("/api/overview")["object_totals"]["queues"] >= 1, "monitors know the sums"


def test_queues_are_listed_by_who_declared_them(api, broker):
    user = api.as_user("u-management:pw")
    assert user("PUT", f"/api/queues/{V}/mine-too", {"durable": True}).status == 201
    names = lambda of, by: [queue["name"] for queue in of.get(f"/api/users/{by}/queues")]
    assert "mine-too" in names(api, "u-management") and "mine-too" not in names(api, "guest")
    assert names(user, "u-management") == names(api, "u-management") and names(api.as_user("u-monitoring:pw"), "u-management") == []
    page = api.get("/api/users/u-management/queues?page=1&page_size=1&columns=name")
    assert page["page_size"] == 1 and set(page["items"][0]) == {"name"}
    assert names(api, "nobody") == [] and api("PUT", "/api/users/guest/queues", {}).status == 405


def test_what_does_not_exist_has_no_bindings(api):
    for path in ["bindings/nov/e/a/q/b", "bindings/nov/e/a/e/b", f"bindings/{V}/e/nox/q/noq", "queues/nov/q/bindings", "exchanges/nov/x/bindings/source",
                 f"exchanges/{V}/nox/bindings/destination"]:
        assert api.get(f"/api/{path}") == [] == api.as_user("u-monitoring:pw").get(f"/api/{path}".replace(V, "nov")), path
        assert api.as_user("u-:pw")("GET", f"/api/{path}").status == 401
    assert api.as_user("u-monitoring:pw")("GET", f"/api/queues/{V}/noq/bindings").status == 404
    for path in ["bindings/nov", "bindings/nov/e/a/q/b/k", f"bindings/{V}/e/nox/q/noq/k"]:
        assert api("GET", f"/api/{path}").status == 404, path


def test_operator_policies_are_parameters_that_are_only_read(api):
    policy = {"pattern": "^none", "definition": {"max-length": 5}, "priority": 2, "apply-to": "queues"}
    assert api("PUT", f"/api/operator-policies/{V}/op", policy).status == 201
    shown = {"component": "operator_policy", "name": "op", "vhost": V, "value": policy}
    assert shown in api.get("/api/parameters") and api.get(f"/api/parameters/operator_policy/{V}/op") == shown
    assert api("DELETE", f"/api/parameters/operator_policy/{V}/op").status == 400
    assert api("DELETE", f"/api/operator-policies/{V}/op").status == 204


def test_permissions_hold_over_http(api):
    user = api.as_user("u-management:pw")
    assert user("PUT", f"/api/queues/{V}/mine", {"durable": True}).status == 201
    refused = user("PUT", f"/api/queues/{V}/yours", {"durable": True})
    assert refused.status == 401 and refused.json == {"error": "not_authorised", "reason": "Access refused."}
    assert user("DELETE", f"/api/vhosts/{V}").status == 401
    assert user("PUT", "/api/users/another", {"password": "x", "tags": "administrator"}).status == 401


def test_without_a_login_browsers_are_asked_for_one(api):
    answer = api.as_user(None)("GET", "/api/whoami")
    assert answer.status == 401 and answer.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'


def test_answers_carry_the_headers_of_rabbitmq(api):
    answer = api("GET", "/api/overview")
    assert answer.headers["content-security-policy"] == "script-src 'self'; object-src 'self'"
    assert answer.headers["allow"] == "HEAD, GET, OPTIONS" and answer.headers["cache-control"] == "no-cache"
    assert "access-control-allow-origin" not in api("GET", "/api/overview", headers={"origin": "http://elsewhere"}).headers


def test_monitors_see_who_tried_to_log_in_and_only_administrators_forget_it(api):
    node = api.get("/api/overview")["node"].replace("@", "%40")
    for path in [f"/api/auth/attempts/{node}", f"/api/auth/attempts/{node}/source"]:
        assert api.as_user("u-monitoring:pw")("GET", path).status == 200
        refused = api.as_user("u-monitoring:pw")("DELETE", path)
        assert refused.status == 401 and refused.json == {"error": "not_authorised", "reason": "Not administrator user"}
        assert api.as_user("u-administrator:pw")("DELETE", path).status == 204


def test_policies_are_parameters_for_who_asks_for_them(api):
    policy = {"pattern": "^none", "definition": {"max-length": 5}, "priority": 2, "apply-to": "queues"}
    assert api("PUT", f"/api/policies/{V}/asked", policy).status == 201
    shown = {"component": "policy", "name": "asked", "vhost": V, "value": policy}
    user = api.as_user("u-policymaker:pw")
    assert user.get("/api/parameters/policy") == user.get(f"/api/parameters/policy/{V}") == [shown]
    assert user.get(f"/api/parameters/policy/{V}/asked") == shown and shown not in user.get("/api/parameters")
    assert api("DELETE", f"/api/parameters/policy/{V}/asked").status == 400
    assert api("DELETE", f"/api/policies/{V}/asked").status == 204


def login(api, body, **headers):
    return api.as_user(None)("POST", "/api/login", body, headers={"content-type": "application/x-www-form-urlencoded", **headers})


def test_a_login_is_a_form_with_name_and_password(api):
    """Compared with 4.3.6 by hand: it sends no cookie either, and a header alone is none."""
    answer = login(api, b"username=u-management&password=pw")
    user = {"name": "u-management", "tags": ["management"], "is_internal_user": True}
    token = base64.b64encode(b"u-management:pw").decode()
    assert (answer.status, answer.json) == (200, {"user": user, "token": {"type": "basic", "value": token}})
    assert "set-cookie" not in answer.headers
    assert login(api, b"password=pw&username=u-monitoring&username=nobody", authorization="Basic eDp5").json["user"]["name"] == "u-monitoring"
    refused = {"error": "not_authorized", "reason": "Not_Authorized"}
    for body in [b"username=u-management&password=no", b"username=u-management", b"password=pw", b"", b'{"username": "u-management", "password": "pw"}']:
        answer = login(api, body)
        assert (answer.status, answer.json) == (401, refused), body
    answer = api.as_user("u-management:pw")("POST", "/api/login", b"")
    assert (answer.status, answer.json) == (401, refused), "the header says nothing here"
    assert login(api, b"username=u-&password=pw").json == {"error": "not_authorised", "reason": "Not management user"}
    assert login(api, b"username=" + b"x" * 5000).status == 400
    assert api("GET", "/api/login").status == 405
