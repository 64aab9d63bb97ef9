"""A Warren server per test, started with the configuration that the test is about. Refuses to know any single key."""

import itertools
import json
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "crash"), str(HERE.parent / "conformance")]

import broker as process  # noqa: E402  (a broker as a process, from testing/crash)
import client  # noqa: E402  (the frame-level client, from testing/conformance)
from warren import LISTEN, Warren  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--warren", default=os.environ.get("WARREN_BIN", "warren"), help="the binary under test")


class Server:
    """One server: its data folder, its configuration file, clients and control commands of it."""

    def __init__(self, warren, folder, config):
        flags = [] if "listeners.tcp" in config else LISTEN
        self.process = Warren(warren, folder, config, flags)
        if "management.tcp" in config:   # the file says where the API is, whatever the suites' runner wants
            self.process.command[:0] = ["env", "-u", "WARREN_MANAGEMENT_LISTEN"]
        self.warren, self.folder, self.data, self.config = warren, folder, self.process.data, self.process.config
        self.clients = []

    def start(self):
        self.process.start()
        return self

    def restart(self):
        self.process.kill()
        return self.start()

    def connect(self, host=None, user="guest", password="guest", **options):
        """An open connection, or only the socket with ``start=False``."""
        url = f"amqp://{user}:{password}@{host or '127.0.0.1'}:{self.process.port}/%2F"
        self.clients.append(client.Connection(url, **options))
        return self.clients[-1]

    def ctl(self, *words):
        """Exit code, standard output and standard error of a control command."""
        return self.process.ctl("-q", *words, timeout_s=30)

    def do(self, *words):
        """A control command that must succeed; its output."""
        code, out, error = self.ctl(*words)
        assert code == 0, error
        return out

    def listed(self, *words):
        return json.loads(self.do(*words, "--formatter", "json"))

    def refused_start(self):
        """Starts it, which must fail; what it said."""
        with pytest.raises(process.Failed) as failed:
            self.process.start()
        return str(failed.value)

    def end(self):
        for one in self.clients:
            one.kill()
        if self.process.child is not None and self.process.alive():
            self.process.stop()


@pytest.fixture
def prepared(request, tmp_path):
    """Makes servers that are not started yet: ``prepared(config text)``."""
    servers, numbers = [], itertools.count()

    def make(config=""):
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        servers.append(Server(request.config.getoption("--warren"), folder, config))
        return servers[-1]

    yield make
    for server in servers:
        server.end()


@pytest.fixture
def server(prepared):
    """Starts servers: ``server(config text)``."""
    return lambda config="": prepared(config).start()
