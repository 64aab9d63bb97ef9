"""The description of the API: what it says of answers is what answers are. Each route that reads is asked, as itself, as a page and with histories."""

import json

import pytest

from scene import USER, V, asked, scene

# The objects of these routes are not there, and cannot be made.
NOTHING_THERE = {"/api/connections/{name}/sessions", "/api/queues/quorum/{vhost}/{name}/status", "/api/profile/history",
                 "/api/stream/connections/{vhost}/{name}", "/api/stream/connections/{vhost}/{name}/consumers", "/api/stream/connections/{vhost}/{name}/publishers",
                 "/api/stream/publishers/{vhost}/{name}", "/api/stream/{vhost}/{name}/tracking"}


@pytest.fixture(scope="module")
def described(api):
    return api.get("/api/openapi.json")


def problems(schema, value, components, where="$"):
    """The parts of a value that its schema does not allow. Members that the schema does not name are problems, too."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return problems(components[name], value, components, f"{where}<{name}>")
    if "anyOf" in schema:
        found = [problems(one, value, components, where) for one in schema["anyOf"]]
        return min(found, key=len)
    if "enum" in schema or "const" in schema:
        words = schema.get("enum", [schema.get("const")])
        return [] if value in words else [f"{where}: {value!r} is none of {words}"]
    types = schema.get("type")
    if types is None:
        return []
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None), "object": dict, "array": list}
    types = types if isinstance(types, list) else [types]
    if not any(isinstance(value, kinds[one]) and (one == "boolean") == isinstance(value, bool) for one in types):
        return [f"{where}: {value!r:.80} is no {' or '.join(types)}"]
    if isinstance(value, list):
        return [it for nth, one in enumerate(value) for it in problems(schema.get("items", {}), one, components, f"{where}[{nth}]")]
    if isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", False)
        found = [f"{where}: there is no {name}" for name in schema.get("required", []) if name not in value]
        for name, one in value.items():
            inner = properties.get(name, others)
            if inner is False:
                found.append(f"{where}: nothing is said of {name} = {one!r:.80}")
            elif inner is not True:
                found += problems(inner, one, components, f"{where}.{name}")
        return found
    return []


@pytest.mark.parametrize("value,count", [
    ({"a": "x", "b": 1}, 0), ({"a": "x", "b": None, "c": [{"d": True}]}, 0), ({"b": 1}, 1), ({"a": 1, "b": 1}, 1), ({"a": "z", "b": "y"}, 2), ({"a": "x", "b": True}, 1),
    ({"a": "x", "b": 1, "more": 1}, 1), ({"a": "x", "b": 1, "c": [{"d": 1}, {}, 5]}, 3), ([], 1), (None, 1),
])
def test_what_does_not_fit_is_seen(value, count):
    components = {"D": {"type": "object", "properties": {"d": {"type": "boolean"}}, "required": ["d"]}}
    schema = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": ["integer", "null"]}, "c": {"type": "array", "items": {"$ref": "#/components/schemas/D"}}},
              "required": ["a", "b"]}
    assert len(problems(schema, value, components)) == count


def answers(api, path, stands_for):
    """The answers of the route of a path, to administrators and to others."""
    for request in asked(path, stands_for):
        for login in ("guest:guest", f"{USER}:pw"):
            answer = api.as_user(login)("GET", request)
            if answer.status != 401:
                yield request, answer


def content(described, path, method="get"):
    return described["paths"][path][method]["responses"]["200"]["content"]


def test_every_route_answers_as_is_said(api, broker, described):
    components, found, seen = described["components"]["schemas"], [], set()
    with scene(api, broker.amqp) as stands_for:
        stands_for["port"] = broker.http.rsplit(":", 1)[1]
        stands_for["props"] = api.get(f"/api/bindings/{V}/e/x/q/q")[0]["properties_key"]
        api.get("/api/queues"), api.get("/api/exchanges"), api.get("/api/channels"), api.get("/api/connections")     # rates begin when somebody looks
        broker.ctl("enable_auth_attempt_source_tracking")
        for path in (path for path, methods in described["paths"].items() if "get" in methods and path not in NOTHING_THERE):
            said = content(described, path)
            for request, answer in answers(api, path, stands_for):
                media_type = answer.headers["content-type"].split(";")[0]
                assert answer.status == 200 and list(said) == [media_type], (request, answer)
                if media_type == "application/json":
                    found += [f"{request}: {problem}" for problem in problems(said[media_type]["schema"], answer.json, components)]
                seen.add(path)
        broker.ctl("disable_auth_attempt_source_tracking")
    assert found == []
    assert len(seen) > 100


def test_posts_answer_as_is_said(api, broker, described):
    components = described["components"]["schemas"]
    login = b"username=guest&password=guest"
    with scene(api, broker.amqp):
        requests = [("/api/queues/{vhost}/{name}/get", f"/api/queues/{V}/q/get", {"count": 9, "ackmode": "ack_requeue_true", "encoding": "auto"}),
                    ("/api/exchanges/{vhost}/{name}/publish", f"/api/exchanges/{V}/x/publish", {"routing_key": "a", "properties": {}, "payload": "", "payload_encoding": "string"}),
                    ("/api/ctl", "/api/ctl", {"command": "list_queues", "args": ["name"], "options": {"vhost": V}}), ("/api/ctl", "/api/ctl", {"command": "status"}),
                    ("/api/login", "/api/login", login)]
        for path, request, body in requests:
            answer = api("POST", request, body)
            assert answer.status == 200 and answer.json != [], (path, answer)
            schema = content(described, path, "post")["application/json"]["schema"]
            assert problems(schema, answer.json, components) == [], json.dumps(answer.json)[:500]
