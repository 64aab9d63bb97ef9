"""A Warren server with the clients of a test, and the fixtures that start such servers. A suite subclasses `Server` and gives the class:

    from served import broker, configured, fresh, server

    @pytest.fixture(scope="session")
    def kind():
        return Server

Knows no protocol but AMQP 0-9-1, which stands beside the one that is tested.
"""

import base64
import json
import os
import pathlib
import re
import tempfile
import time
import urllib.request

import pika
import pytest

import warren

DEADLINE_S = 15
BINARY = os.environ.get("WARREN_BIN", "warren")


def until(what, holds, deadline_s=DEADLINE_S):
    """Waits until `holds()` gives something true, and returns it."""
    end = time.monotonic() + deadline_s
    while True:
        found = holds()
        if found:
            return found
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        time.sleep(0.01)


class Amqp:
    """A broker of any kind; subclasses have `url`."""

    def channel(self):
        return pika.BlockingConnection(pika.URLParameters(self.url)).channel()


class Server(Amqp):
    """Not started yet. Subclasses have lines of configuration in `CONFIG`; what is in `clients` has `close`."""

    CONFIG = "prometheus.tcp.listener = none\n"

    def __init__(self, binary, folder, config=""):
        self.process = warren.Warren(binary, folder, self.CONFIG + config)
        self.ctl, self.kill, self.clients = self.process.ctl, self.process.kill, []

    def start(self):
        self.process.start()
        self.url = self.process.url
        return self

    def port_of(self, word):
        """Of a listener, as the ready line names it."""
        return int(re.findall(rf"^ready .* {word}=127.0.0.1:(\d+)", self.process.log_text(), re.MULTILINE)[-1])

    def restart(self):
        """After a kill."""
        self.leave()
        self.kill()
        return self.start()

    def leave(self):
        """All clients end."""
        for client in self.clients:
            client.close()
        self.clients.clear()

    def end(self):
        self.leave()
        if self.process.child.poll() is None:
            self.process.stop()

    def api(self, path):
        """What the HTTP API answers."""
        request = urllib.request.Request(f"http://{self.process.http}/api/{path}")
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def rows(self, *words):
        """Lines of a `list_...` command as lists of columns."""
        code, out, errors = self.ctl("-q", *words)
        assert code == 0, errors
        return [line.split("\t") for line in out.splitlines()][1:]


@pytest.fixture(scope="session")
def server(kind):
    """One for all tests."""
    with tempfile.TemporaryDirectory() as folder:
        server = kind(BINARY, pathlib.Path(folder)).start()
        yield server
        server.end()


@pytest.fixture
def broker(server):
    """The server of all tests; its clients end with the test."""
    yield server
    server.leave()


@pytest.fixture
def configured(kind, tmp_path):
    """Starts servers with further lines of configuration, each in a folder of that name; all end with the test."""
    servers = []

    def start(config="", name="server"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        servers.append(kind(BINARY, folder, config))
        return servers[-1].start()

    yield start
    for server in servers:
        server.end()


@pytest.fixture
def fresh(configured):
    """A server of the test's own."""
    return configured()
