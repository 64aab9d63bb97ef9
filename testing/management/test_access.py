"""Who may ask for what."""

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
    (f"/api/queues/{V}", 200, 200, 200, 200),
    ("/api/queues/%2F", 200, 200, 404, 404),
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
    assert answer.status == 401 and answer.json["reason"] == "Not management user"


def test_vhosts_that_a_user_may_not_open_are_not_listed(api):
    names = lambda tag: [vhost["name"] for vhost in api.as_user(f"u-{tag}:pw").get("/api/vhosts?columns=name")]
    assert names("management") == [V] and "/" in names("monitoring")


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
