"""Requests made up from our own description of the API: whatever is asked, the answer is no failure of the server.

FUZZ_SEED repeats a run, FUZZ_REQUESTS makes it longer.
"""

import json
import os
import random

import pytest

from api import Api, quoted
from conftest import Broker

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


def request(made, paths):
    path = made.choice(list(paths))
    method = made.choice([method for method in paths[path]])
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
    # Connections of users that go are closed, ours are none.
    if path == "/api/users/bulk-delete":
        sent = {"users": ["nobody", value(made)]}
    return method.upper(), "/".join(filled) + ("?" + asked if asked else ""), sent


@pytest.fixture
def own(tmp_path):
    broker = Broker(tmp_path)
    yield broker
    broker.stop()


def test_no_request_makes_the_server_fail(own):
    seed = int(os.environ.get("FUZZ_SEED", random.randrange(2**32)))
    made, api = random.Random(seed), Api(own.http)
    paths = api.get("/api/openapi.json")["paths"]
    seen, before = {}, own.memory_kib()
    for nth in range(int(os.environ.get("FUZZ_REQUESTS", 3000))):
        method, path, sent = request(made, paths)
        told = f"FUZZ_SEED={seed}, request {nth}: {method} {path} {sent!r:.300}"
        answer = api(method, path, sent, timeout=30)
        seen[answer.status] = seen.get(answer.status, 0) + 1
        # A health check that fails is 503, and so is a profile when nothing is watched.
        fails = answer.status >= 500 and not (answer.status == 503 and ("health" in path or "profile" in path or "debug" in path))
        assert not fails, (told, answer)
        if answer.status >= 400 and answer.body and answer.status != 503:
            assert set(json.loads(answer.body)) == {"error", "reason"}, (told, answer)
    assert api.get("/api/whoami")["name"] == "guest", f"FUZZ_SEED={seed}"
    print(f"FUZZ_SEED={seed}: {seen}")
    assert {200, 204, 400, 404} <= set(seen), seen
    assert own.memory_kib() - before < 200_000
    own.log.flush()
    with open(own.log.name) as log:
        assert [line for line in log if "panicked" in line or "ERROR" in line] == [], f"FUZZ_SEED={seed}"
