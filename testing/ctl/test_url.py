"""`--url`: what a user is told whom the server does not let in, and what is never shown. Needs no RabbitMQ."""

import base64
import http.client
import json
import subprocess

import pytest
from test_ctl import Tools, binary_under_test, start


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Tools, HOST:PORT of the HTTP API and the server's process."""
    folder = tmp_path_factory.mktemp("url")
    tools = Tools(binary_under_test(), folder)
    server = start(tools, "prometheus.tcp.port = 0\n")
    place = server.http
    tools.url = f"http://guest:guest@{place}"
    for line in ("add_user watcher secret", "set_user_tags watcher monitoring", "add_user nobody secret"):
        assert tools.run(line, None)["exit"] == 0
    yield tools, place
    server.stop()


@pytest.mark.parametrize("url, code, words", [
    ("http://guest:wrong@{place}", 77, "check both"),
    ("http://watcher:secret@{place}", 77, "no administrator"),
    ("http://nobody:secret@{place}", 77, "no administrator"),
    ("http://guest@{place}", 64, "--password-file"),
    ("http://{place}/prefix", 69, "runs no commands over HTTP"),
    ("http://127.0.0.1:{amqp}", 70, "15672"),
    ("http://127.0.0.1:1", 69, "management.tcp.ip"),
    ("http://no-such-host.invalid", 69, "is this the host"),
    ("https://{place}", 69, "does not speak TLS"),
    ("{place}", 64, "http://USER@HOST:15672"),
])
def test_a_refusal_is_one_line_that_says_what_to_do(there, url, code, words):
    tools, place = there
    done = subprocess.run(["setsid", str(tools.tools / "rabbitmqctl"), "--url", url.format(place=place, amqp=tools.port), "list_users", "-q"],
                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.count("\n") == 1 and words in done.stderr, done.stderr
    assert "secret" not in done.stderr and "wrong" not in done.stderr


def test_a_password_file_is_read_and_a_password_on_the_line_is_not_repeated(there):
    tools, place = there
    (tools.folder / "empty" / "password").write_text("guest\n")
    tools.url, kept = f"http://guest@{place}", tools.url
    try:
        assert tools.run("list_users -q --password-file {dir}/password", None)["exit"] == 0
    finally:
        tools.url = kept
    wrong = tools.run(f"list_queues --bogus --url http://guest:hush@{place}", None)
    assert wrong["exit"] == 64 and "hush" not in wrong["err"] and f"http://guest:***@{place}" in wrong["err"]


def test_definitions_profiles_and_waits_work_from_elsewhere(there):
    tools, _ = there
    files = tools.folder / "empty"           # what {dir} means
    assert tools.run("export_definitions {dir}/all.json", None)["exit"] == 0
    document = json.loads((files / "all.json").read_text())
    document["queues"] = [{"name": f"{n}-{'x' * 200}", "vhost": "/", "durable": True, "auto_delete": False} for n in range(2000)]
    (files / "many.json").write_text(json.dumps(document))
    assert (files / "many.json").stat().st_size > 1 << 19
    assert tools.run("import_definitions {dir}/many.json", None)["exit"] == 0
    assert tools.run("list_queues -q -s name", None)["out"].count("\n") == 2000
    assert tools.run("await_startup -t 5", None)["exit"] == 0
    assert tools.run("profile cpu --seconds 1 -o {dir}/cpu.folded", None)["exit"] in (0, 69)


def post(place, body, content_type="application/json"):
    login = base64.b64encode(b"guest:guest").decode()
    connection = http.client.HTTPConnection(place, timeout=10)
    connection.request("POST", "/api/ctl", body, {"Authorization": f"Basic {login}", "Content-Type": content_type})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def test_the_door_takes_json_only_and_says_what_is_wrong(there):
    _, place = there
    assert post(place, '{"command": "ping"}') == (200, {"ok": "Ping succeeded"})
    # A page of another site can send these with a browser's login.
    for other in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert post(place, '{"command": "ping"}', other)[0] == 415
    for bad in ("", "[]", "{}", '{"command": 1}', '{"command": "ping", "args": "x"}', "\xff", "[" * 100000):
        status, answer = post(place, bad.encode("latin-1"))
        assert status == 400 and "not a command" in answer["reason"], bad
    assert post(place, '{"command": "no_such"}')[1]["exit"] == 64


def test_shutdown_waits_until_nobody_answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shutdown")
    tools = Tools(binary_under_test(), folder)
    server = start(tools, "prometheus.tcp.port = 0\n")
    try:
        place = server.http
        tools.url = f"http://guest:guest@{place}"
        assert tools.run("shutdown -q -t 30", None)["exit"] == 0
        assert tools.run("ping -q", None)["exit"] == 69
    finally:
        server.stop()
