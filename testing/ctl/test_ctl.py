"""Every command line of cases.py against Warren, compared with what RabbitMQ's own tools were seen to answer: standard output,
standard error and exit code, on 4.3 (seen/rabbitmq-4.3.json) or, where the two differ, on 3.10. Needs no RabbitMQ.

Where Warren is different on purpose, differs.py says why; then only what stands there is compared.

Each line is run twice: through the socket in the data folder, and with the URL of the HTTP API."""

import json
import os
import pathlib
import shlex
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "crash"))

import cases  # noqa: E402
import client  # noqa: E402
import differs  # noqa: E402
import normal  # noqa: E402
from warren import LISTEN, MANAGEMENT, Warren  # noqa: E402

NODE = "warren@localhost"
SEEN = [{(one["group"], one["at"]): one for one in json.loads((HERE / "seen" / f"rabbitmq-{version}.json").read_text())} for version in ("4.3", "3.10")]


class Tools:
    """Warren under the names of RabbitMQ's tools, for one data folder."""

    def __init__(self, binary, folder):
        self.folder, self.port, self.url = folder, 0, None
        self.tools = folder / "bin"
        self.tools.mkdir()
        for name in ("rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-queues", "rabbitmq-upgrade", "rabbitmq-plugins", "rabbitmq-streams"):
            (self.tools / name).symlink_to(binary)
        (folder / "empty").mkdir()

    def run(self, line, stdin, data="data", pid=""):
        words = shlex.split(line.replace("{port}", str(self.port)).replace("{dir}", "/tmp").replace("{pid}", shlex.quote(pid)))
        words = [word.replace("/tmp/", f"{self.folder}/empty/") if word.startswith("/tmp/") else word for word in words]
        tool = words.pop(0) if words and words[0].startswith("rabbitmq-") else "rabbitmqctl"
        environment = {**os.environ, "WARREN_DATA_DIR": str(self.folder / data)}
        if self.url:
            environment = {**os.environ, "WARREN_URL": self.url, "WARREN_DATA_DIR": "/nowhere"}
        done = subprocess.run([str(self.tools / tool), *words], input=stdin or "", capture_output=True, text=True, timeout=60, env=environment)
        return {"exit": done.returncode, "out": done.stdout.replace(f"{self.folder}/empty/", "/tmp/"),
                "err": done.stderr.replace(f"{self.folder}/empty/", "/tmp/")}


def start(tools, config, flags=(*LISTEN, *MANAGEMENT)):
    """A broker with the first objects, in the folder of the tools."""
    server = Warren(binary_under_test(), tools.folder, config, flags)
    server.start()
    tools.port = server.port
    return server


def play(tools, given):
    """All groups in order, with one client."""
    for line, stdin, _ in cases.cases(cases.SETUP):
        assert tools.run(line, stdin)["exit"] == 0, line
    keep = client.connect(tools.port)
    for group, text in cases.GROUPS.items():
        if group == "queues":
            client.more(keep)
        for at, (line, stdin, _) in enumerate(cases.cases(text)):
            pid = tools.run("list_connections -s pid", None)["out"].strip() if "{pid}" in line else ""
            given[group, at] = tools.run(line, stdin, pid=pid)
    return given


def binary_under_test():
    return pathlib.Path(os.environ.get("WARREN_BIN") or pytest.exit("WARREN_BIN names the binary to test", 2)).resolve()


@pytest.fixture(scope="session")
def by_socket(tmp_path_factory):
    """What Warren answers to all cases, by group and position: one broker, one client, all in order."""
    folder, given = tmp_path_factory.mktemp("ctl"), {}
    tools = Tools(binary_under_test(), folder)
    (folder / "none").mkdir()
    for at, (line, stdin, _) in enumerate(cases.cases(cases.WITHOUT_BROKER)):
        given["without", at] = tools.run(line, stdin, data="none")
    # The listeners are the same whichever ports others have taken.
    server = start(tools, "warren.management = off\nprometheus.tcp.listener = none\n", LISTEN)
    try:
        return play(tools, given)
    finally:
        server.stop()


@pytest.fixture(scope="session")
def by_url(tmp_path_factory):
    """The same over HTTP, without the data folder."""
    tools = Tools(binary_under_test(), tmp_path_factory.mktemp("url"))
    server = start(tools, "prometheus.tcp.listener = none\n")
    try:
        tools.url = f"http://guest:guest@{server.http}"
        return play(tools, {})
    finally:
        server.stop()


def every_case(groups):
    for group, text in groups.items():
        for at, (line, _, unordered) in enumerate(cases.cases(text)):
            yield pytest.param(group, at, line, unordered, id=f"{group}-{at}-{line}"[:90])


def check(given, group, at, line, unordered):
    exact = group in cases.EXACT and not differs.find(group, line)
    given = normal.comparable({**given[group, at], "line": line, "node": NODE}, unordered, exact)
    difference = differs.find(group, line)
    if difference:
        for part, wanted in difference.wanted.items():
            assert wanted(given[part]) if callable(wanted) else given[part] == wanted, f"{line}: {difference.why}: {part} is {given[part]!r}"
        return
    seen = [normal.comparable(one[group, at], unordered, exact) for one in SEEN if (group, at) in one]
    assert seen, "not in seen/: run record.py"
    assert any(given == one for one in seen), f"{line}\nWarren:   {given}\n" + "\n".join(f"RabbitMQ: {one}" for one in seen)


@pytest.mark.parametrize("group, at, line, unordered", list(every_case({"without": cases.WITHOUT_BROKER, **cases.GROUPS})))
def test_answers_as_rabbitmq_does(by_socket, group, at, line, unordered):
    check(by_socket, group, at, line, unordered)


@pytest.mark.parametrize("group, at, line, unordered", list(every_case(cases.GROUPS)))
def test_answers_the_same_from_elsewhere(by_url, group, at, line, unordered):
    if line in differs.SHOWS_LISTENERS:
        pytest.skip("the HTTP API is one listener more")
    if "nosuchhost" in line:
        pytest.skip("a URL says which node is meant")
    check(by_url, group, at, line, unordered)
