"""Users' view of others: consumers, connections and channels, as RabbitMQ 4.3 shows them to each tag; and lists with and without pages."""

import http.client
import base64

import pika
import pytest
from api import quoted

V = "sight"
TAGS = ["monitoring", "management", "policymaker"]


@pytest.fixture(scope="module")
def seen(api, broker):
    """Connections of two users with a consumer each; the first has the tag `management`. Their names."""
    assert api("PUT", f"/api/vhosts/{V}", {}).status == 201
    for name, tag in [*((f"s-{tag}", tag) for tag in TAGS), ("s-other", "")]:
        assert api("PUT", f"/api/users/{name}", {"password": "pw", "tags": tag}).status == 201
    connections = {}
    for name in ["s-management", "s-other"]:
        assert api("PUT", f"/api/permissions/{V}/{name}", {"configure": ".*", "write": ".*", "read": ".*"}).status == 201
        connections[name] = pika.BlockingConnection(pika.URLParameters(broker.amqp.replace("guest:guest", f"{name}:pw") + V))
        channel = connections[name].channel()
        channel.queue_declare(f"of-{name}", durable=True)
        channel.basic_consume(f"of-{name}", lambda *_: None)
    yield {one["user"]: one["name"] for one in api.get("/api/connections") if one["user"] in connections}
    for connection in connections.values():
        if connection.is_open:
            connection.close()
    assert api("DELETE", f"/api/vhosts/{V}").status == 204
    assert api("POST", "/api/users/bulk-delete", {"users": [*(f"s-{tag}" for tag in TAGS), "s-other"]}).status == 204


BOTH, OWN, NONE, MISSING = ["s-management", "s-other"], ["s-management"], [], 404
SEEN = [
    # path, monitoring, management, policymaker: the last two see what is of their own connections
    ("/api/consumers", BOTH, OWN, NONE),
    (f"/api/consumers/{V}", BOTH, OWN, MISSING),
    ("/api/consumers/%2F", NONE, MISSING, MISSING),
    ("/api/consumers/nosuch", MISSING, MISSING, MISSING),
    ("/api/channels", BOTH, OWN, NONE),
    ("/api/connections", BOTH, OWN, NONE),
    (f"/api/vhosts/{V}/channels", MISSING, OWN, MISSING),
    (f"/api/vhosts/{V}/connections", MISSING, OWN, MISSING),
]


@pytest.mark.parametrize("path,monitoring,management,policymaker", SEEN)
def test_lists_hold_what_a_user_may_see(api, seen, path, monitoring, management, policymaker):
    for tag, expected in zip(TAGS, [monitoring, management, policymaker]):
        answer = api.as_user(f"s-{tag}:pw")("GET", path)
        if expected == MISSING:
            assert answer.status == 404, (tag, answer)
        else:
            users = sorted(one.get("user") or one["channel_details"]["user"] for one in answer.json)
            assert users == expected, (tag, answer)


def test_connections_of_others_are_refused_and_not_hidden(api, seen):
    user = api.as_user("s-management:pw")
    own, other = quoted(seen["s-management"]), quoted(seen["s-other"])
    for path in ["/api/connections/{}", "/api/connections/{}/channels", "/api/channels/{}%20(1)"]:
        assert user("GET", path.format(own)).status == 200
        refused = user("GET", path.format(other))
        assert (refused.status, refused.json["reason"]) == (401, "User not authorised to access object"), path
        assert user("GET", path.format("nosuch")).status == 404
        assert api.as_user("s-monitoring:pw")("GET", path.format(other)).status == 200
    assert user("DELETE", f"/api/connections/{other}").status == 401
    sessions = api("GET", f"/api/connections/{own}/sessions")
    assert (sessions.status, sessions.json["reason"]) == (400, "connection does not use AMQP 1.0")


def test_lists_have_pages_where_rabbitmq_has_them(api, seen):
    other = quoted(seen["s-other"])
    for path in ["connections", "channels", "users", "vhosts", "queues", "exchanges", "users/guest/queues", "connections/username/s-other"]:
        assert api.get(f"/api/{path}?page=1")["page"] == 1, path
        assert api("GET", f"/api/{path}?page=x").status == 400, path
    for path in [f"vhosts/{V}/connections", f"vhosts/{V}/channels", f"connections/{other}/channels", "consumers", "bindings", "permissions", "policies"]:
        assert isinstance(api.get(f"/api/{path}?page=1"), list), path
        assert api.get(f"/api/{path}?page=1&pagination=true")["page"] == 1, path


def test_a_connection_is_closed_for_a_reason_in_any_language(api, broker, seen):
    name = "s-other"
    with_reason = pika.BlockingConnection(pika.URLParameters(broker.amqp.replace("guest:guest", f"{name}:pw") + V))
    new = next(one["name"] for one in api.get("/api/connections") if one["user"] == name and one["name"] != seen[name])
    client = http.client.HTTPConnection(*broker.address)
    client.putrequest("DELETE", f"/api/connections/{quoted(new)}")
    client.putheader("authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    client.putheader("x-reason", "Gründe: жук".encode())
    client.endheaders()
    assert client.getresponse().status == 204
    client.close()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        with_reason.process_data_events(10)
    assert closed.value.reply_text == "CONNECTION_FORCED - Gründe: жук"


def test_exchanges_tell_who_made_them(api, seen):
    user = api.as_user("s-management:pw")
    assert user("PUT", f"/api/exchanges/{V}/made", {"type": "topic"}).status == 201
    by = lambda path: api.get(f"/api/exchanges/{path}")["user_who_performed_action"]
    assert (by(f"{V}/made"), by(f"{V}/amq.topic"), by("%2F/amq.topic")) == ("s-management", "guest", "rmq-internal")


def test_parts_of_the_memory_are_all_of_it(api):
    node = api.get("/api/overview")["node"]
    memory = api.get(f"/api/nodes/{node}/memory")["memory"]
    total, strategy = memory.pop("total"), memory.pop("strategy")
    assert sum(memory.values()) == total[strategy] and total["erlang"] == total["allocated"] - memory["allocated_unused"]
    assert set(memory) <= set(api.get(f"/api/nodes/{node}/memory/relative")["memory"])
