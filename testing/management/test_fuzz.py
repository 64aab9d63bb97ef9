"""Requests made up from our own description of the API: whatever is asked, the answer is no failure of the server.

Each run of a commit asks the same: a seed and a route say what is asked of the route, so a new route leaves the others' requests as they
were. TEST_SEED=7, TEST_SEED=1-300 and TEST_SEED=random ask other things; FUZZ_REQUESTS asks more of each route.
"""

import json
import os
import random

import pytest

from api import Api, quoted
from conftest import Broker

SEEDS = [1, 2, 3]
REQUESTS = 16

NAMES = ["/", "q", "guest", "nobody", "amq.topic", "amq.default", "", " ", ".", "..", "%", "%2F", "ä", "\x00", "\x7f", "x" * 255, "x" * 300, "0", "-1", "~", "p", "max-queues", "max-connections",
         "vhost-limits", "limits", "classic", "warren@localhost", "AMQP", "5672", "99999999999999999999", "2", "days", "{}", "a,b", "cluster_name", "'", '"', "<b>", "\u202e", "memory"]
KEYS = ["name", "value", "durable", "auto_delete", "internal", "type", "arguments", "routing_key", "properties", "payload", "payload_encoding", "count", "ackmode", "encoding", "truncate",
        "password", "password_hash", "hashing_algorithm", "tags", "configure", "write", "read", "exchange", "pattern", "definition", "priority", "apply-to", "users", "queues", "exchanges",
        "bindings", "vhosts", "permissions", "policies", "parameters", "global_parameters", "vhost", "description", "default_queue_type", "metadata", "protected_from_deletion", "tracing",
        "action", "source", "destination", "destination_type", "continuous", "heap", "x-max-length", "x-message-ttl", "x-expires", "x-dead-letter-exchange", "x-max-priority",
        "x-overflow", "x-single-active-consumer", "max-length", "message-ttl", "headers", "delivery_mode", "expiration", "timestamp", "topic_permissions", "rabbit_version"]
QUERIES = ["page", "page_size", "name", "use_regex", "sort", "sort_reverse", "columns", "lengths_age", "lengths_incr", "msg_rates_age", "msg_rates_incr", "disable_stats",
           "enable_queue_totals", "if-unused", "if-empty", "download", "vhost", "exchange", "routing_key", "headers", "queue", "seconds", "hz", "as", "by", "only", "minutes", "lines"]
WORDS = ["true", "false", "", "x", "1", "0", "-1", "1e9", "18446744073709551616", "(", "[", "a.b.c", "name,messages", "{}", "[]", '{"a":1}', "%00", "svg", "60"]


def value(made, depth=0):
    kind = made.randrange(9 if depth < 3 else 6)
    if kind == 0:
        return made.choice([True, False, None])
    if kind == 1:
        return made.choice([0, 1, -1, 5, 255, 256, 65536, 2**31, 2**63 - 1, 2**63, 2**64, -2**63, 2**70])
    if kind == 2:
        return made.choice([0.5, -0.0, 1e308, 1e-300])
    if kind <= 5:
        return made.choice(NAMES + ["string", "base64", "queue", "topic", "direct", "ack_requeue_true", "auto", "queues", "reject-publish", "x-delayed-message", "AA==", ".*", "("])
    if kind == 6:
        return [value(made, depth + 1) for _ in range(made.randrange(4))]
    return {made.choice(KEYS): value(made, depth + 1) for _ in range(made.randrange(6))}


GOOD = {"durable": True, "type": "topic", "routing_key": "q", "properties": {}, "payload": "p", "payload_encoding": "string", "count": 3, "ackmode": "ack_requeue_true", "encoding": "auto",
        "password": "p", "tags": "management", "configure": ".*", "write": ".*", "read": ".*", "exchange": "amq.topic", "pattern": ".*", "definition": {"max-length": 9}, "priority": 1,
        "apply-to": "queues", "value": 5, "arguments": {}}


def body(made):
    """Something sensible with a wrong place or two, or nonsense."""
    if made.random() < 0.1:
        return made.choice([b"", b"{", b"[]", b"\xff", b"null", b'{"a":' * 40, b"0"])
    if made.random() < 0.3:
        return value(made)
    made_up = dict(GOOD)
    for _ in range(made.randrange(4)):
        key = made.choice(KEYS)
        made_up[key] = value(made)
        made_up.pop(made.choice(list(made_up)))
    return made_up


def request(made, path, method):
    changes = method != "get"
    filled = []
    for part in path.split("/"):
        if part.startswith("{"):
            # The user who asks and his vhost stay, or there is nothing left to ask.
            kept = {"guest"} if part == "{user}" else {"/"} if "vhosts" in path or "permissions" in path else set()
            names = [name for name in NAMES if not (changes and name in kept)]
            part = quoted(made.choice(["/", "q"] if made.random() < 0.5 and not (changes and kept) else names)) or "x"
        filled.append(part)
    asked = "&".join(f"{made.choice(QUERIES)}={quoted(made.choice(WORDS))}" for _ in range(made.randrange(4)))
    if "profile" in path or "debug" in path:
        asked = "seconds=" + made.choice(["x", "0", "601", ""]) + ("&" + asked.replace("seconds", "hz") if asked else "")
    sent = body(made) if changes and method != "delete" else None
    if path == "/api/users/bulk-delete":
        victim = value(made)
        sent = {"users": ["nobody", "q" if "guest" in json.dumps(victim) else victim]}
    return method.upper(), "/".join(filled) + ("?" + asked if asked else ""), sent


def requests(seed, paths):
    """So many of each route, in an order that mixes them."""
    all_of_them = []
    for path, methods in paths.items():
        for method in methods:
            made = random.Random(f"{seed} {method} {path}")
            for _ in range(int(os.environ.get("FUZZ_REQUESTS", REQUESTS))):
                all_of_them.append((made.random(), path, request(made, path, method)))
    return [(path, *made_up) for _, path, made_up in sorted(all_of_them, key=lambda one: one[0])]


def seeds():
    asked = os.environ.get("TEST_SEED")
    if not asked:
        return SEEDS
    if asked == "random":
        return [random.randrange(2**32)]
    first, _, last = asked.partition("-")
    return range(int(first), int(last or first) + 1)


def may_be_unavailable(route, answer):
    """A health check that fails is 503, and so are a profile when nothing is watched and, as in RabbitMQ, replicas of a classic queue."""
    if route.startswith("/api/queues/quorum/{vhost}/{name}/"):
        return answer.json["reason"] in ("classic_queue_not_supported", "not_found")
    return route.startswith(("/api/health/", "/api/profile/", "/debug/"))


@pytest.fixture
def own(tmp_path):
    broker = Broker(tmp_path)
    yield broker
    broker.stop()


@pytest.mark.parametrize("seed", seeds())
def test_no_request_makes_the_server_fail(own, seed):
    api = Api(own.http)
    seen, before = {}, own.memory_kib()
    for nth, (route, method, path, sent) in enumerate(requests(seed, api.get("/api/openapi.json")["paths"])):
        told = f"TEST_SEED={seed}, request {nth}: {method} {path} {sent!r:.300}"
        answer = api(method, path, sent, timeout=30)
        seen[answer.status] = seen.get(answer.status, 0) + 1
        assert answer.status < 500 or answer.status == 503 and may_be_unavailable(route, answer), (told, answer)
        if answer.status >= 400 and answer.body and answer.status != 503:
            keys = {"error", "exit"} if route == "/api/ctl" and "exit" in answer.json else {"error", "reason"}
            assert set(answer.json) == keys, (told, answer)
        if answer.status == 401:
            assert api.get("/api/whoami")["name"] == "guest", f"locked out before {told}"
    print(f"TEST_SEED={seed}: {seen}")
    assert {200, 204, 400, 404} <= set(seen), seen
    assert own.memory_kib() - before < 200_000
    assert [line for line in own.log_text().splitlines() if "panicked" in line or "ERROR" in line] == [], f"TEST_SEED={seed}"
