"""Definitions imported at a start and by command: what is taken, what is refused, what is left out."""

import json

import pytest

USER = {"name": "u", "password": "pw", "tags": ["administrator"]}
VHOST = {"name": "/"}
PERMISSION = {"user": "u", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}


def queue(name, **arguments):
    return {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}


BASE = {"users": [USER], "vhosts": [VHOST], "permissions": [PERMISSION], "queues": [queue("q")]}
UNSUPPORTED = BASE | {
    "queues": [queue("q"), queue("qq", **{"x-queue-type": "quorum"}), queue("s", **{"x-queue-type": "x-odd"})],
    "policies": [{"vhost": "/", "name": "p", "pattern": ".*", "apply-to": "all", "definition": {"ha-mode": "all"}, "priority": 0}],
    "bindings": [
        {"source": "amq.direct", "vhost": "/", "destination": d, "destination_type": "queue", "routing_key": "k"}
        for d in ("q", "qq", "s")
    ],
}


@pytest.fixture
def file(tmp_path):
    """Writes a document and gives its path."""

    def write(document, name="definitions.json"):
        path = tmp_path / name
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    return write


def test_definitions_are_there_before_clients_come(server, file):
    server = server(f"load_definitions = {file(BASE)}")
    channel = server.connect(user="u", password="pw").channel()
    channel.call("queue.declare", queue="q", passive=True)
    users = [line["user"] for line in server.listed("list_users")]
    assert users == ["u"], "definitions replace the default user"


def test_the_newer_key_and_a_folder(server, file, tmp_path):
    file(BASE, "a.json")
    file({"queues": [queue("second")]}, "b.json")
    server = server(f"definitions.import_backend = local_filesystem\ndefinitions.local.path = {tmp_path}")
    assert {line["name"] for line in server.listed("list_queues", "name")} == {"q", "second"}


@pytest.mark.parametrize(
    "document, problem",
    [
        ("{", "not a definitions document"),
        ("[]", "not a JSON object"),
        (BASE | {"queues": [queue("q", **{"x-max-length": -1})]}, "queue 'q'"),
        (BASE | {"permissions": [PERMISSION | {"vhost": "nowhere"}]}, "vhost 'nowhere' does not exist"),
        (UNSUPPORTED, "1 queue, 1 binding, 1 policy, which Warren does not have yet"),
    ],
)
def test_a_broken_file_stops_the_start(prepared, file, document, problem):
    path = file(document)
    said = prepared(f"load_definitions = {path}").refused_start()
    assert str(path) in said and problem in said, said


def test_a_missing_file_stops_the_start(prepared):
    said = prepared("load_definitions = /nowhere/definitions.json").refused_start()
    assert "/nowhere/definitions.json" in said and "No such file" in said, said


def test_what_warren_does_not_have_may_be_left_out(server, file):
    server = server(f"load_definitions = {file(UNSUPPORTED)}\nwarren.definitions.skip_unsupported = true")
    assert sorted(line["name"] for line in server.listed("list_queues", "name")) == ["q", "qq"]
    assert "skipped: queue 's' in vhost '/': type 'x-odd'" in server.process.log_tail(100)


def test_unchanged_definitions_may_be_skipped(server, file):
    path = file(BASE)
    server = server(f"load_definitions = {path}\ndefinitions.skip_if_unchanged = true")
    server.do("delete_queue", "q")
    server.restart()
    assert server.listed("list_queues", "name") == []
    file(BASE | {"queues": [queue("q"), queue("r")]})
    server.restart()
    assert len(server.listed("list_queues", "name")) == 2


def test_an_import_by_command_refuses_or_lists_what_it_leaves_out(server, file):
    server, path = server(), str(file(UNSUPPORTED))
    code, _, error = server.ctl("import_definitions", path)
    assert code == 65 and "1 queue, 1 binding, 1 policy" in error and "--skip-unsupported" in error
    assert server.listed("list_queues", "name") == []
    out = server.do("import_definitions", "--skip-unsupported", path)
    header, *rows = out.splitlines()
    assert header.split("\t") == ["left_out", "vhost", "name", "why"]
    assert sorted(rows) == [
        "binding\t/\tamq.direct -> s\tone of its ends is skipped",
        "policy\t/\tp\tsettings ha-mode",
        "queue\t/\ts\ttype 'x-odd'",
        "traffic\t/\tamq.direct\t1 binding left out; others with the same keys stay",
    ]
    assert sorted(line["name"] for line in server.listed("list_queues", "name")) == ["q", "qq"]


def test_policies_with_patterns_that_cannot_be_used_are_left_out_by_command(server, file):
    policy = {"vhost": "/", "name": "p", "pattern": "(?R)", "definition": {"max-length": 1}}
    operator = {"vhost": "/", "component": "operator_policy", "name": "o", "value": policy | {"pattern": "(a)?(?(1)b|c)"}}
    server, path = server(), str(file(BASE | {"policies": [policy, policy | {"name": "kept", "pattern": "^k"}], "parameters": [operator]}))
    code, _, error = server.ctl("import_definitions", path)
    assert code == 65 and "1 policy, 1 operator policy, which Warren does not have yet" in error and "--skip-unsupported" in error
    out = server.do("import_definitions", "--skip-unsupported", path)
    starts = ["policy\t/\tp\tpattern '(?R)': ", "operator policy\t/\to\tpattern '(a)?(?(1)b|c)': "]
    lines = out.splitlines()[1:]
    assert len(lines) == 2 and all(line.startswith(start) for line, start in zip(lines, starts)), out
    assert [line["name"] for line in server.listed("list_policies")] == ["kept"]


@pytest.mark.parametrize("peer", ["rabbitmq-4.3.6.json", "rabbitmq-3.10.8.json"])
def test_an_export_of_rabbitmq_is_imported_and_comes_back(server, request, peer):
    """The files are what `rabbitmqctl export_definitions` of these releases wrote."""
    path = request.path.parent / "data" / peer
    given, server = json.loads(path.read_text()), server()
    server.do("import_definitions", str(path))
    for line in given["queues"]:
        line["arguments"].setdefault("x-queue-type", "classic")      # as RabbitMQ 4.3 imports queues without a type
    back = json.loads(server.do("export_definitions", "-"))

    def rows(document, key, *names):
        lines = [{name: line[name] for name in names} for line in document[key]]
        return sorted(json.dumps(line, sort_keys=True) for line in lines if not line.get("name", "").startswith("amq."))

    for key, names in {
        "users": ("name", "password_hash", "hashing_algorithm", "tags"),
        "permissions": ("user", "vhost", "configure", "write", "read"),
        "topic_permissions": ("user", "vhost", "exchange", "write", "read"),
        "parameters": ("vhost", "component", "name", "value"),
        "queues": ("name", "vhost", "durable", "auto_delete", "arguments"),
        "exchanges": ("name", "vhost", "type", "durable", "auto_delete", "arguments"),
        "bindings": ("source", "vhost", "destination", "destination_type", "routing_key", "arguments"),
    }.items():
        missing = set(rows(given, key, *names)) - set(rows(back, key, *names))
        assert not missing, (key, missing)
    assert {vhost["name"] for vhost in given["vhosts"]} <= {vhost["name"] for vhost in back["vhosts"]}
    server.connect(user="ex-user", password="ex-password", vhost="ex-vhost").channel()
