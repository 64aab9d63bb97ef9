"""A Warren server with the stream protocol for all tests, and one per test that is restarted. WARREN_BIN is the binary.

Against another broker: STREAM_PORT=5552 AMQP_URL=amqp://guest:guest@HOST:PORT/%2F pytest; tests of a restart are left out then.
"""

import os
import pathlib
import re
import sys
import tempfile
import time

import pika
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "crash")]

import warren  # noqa: E402
from frames import Client  # noqa: E402

CONFIG = """
prometheus.tcp.listener = none
stream.listeners.tcp.default = 127.0.0.1:0
stream.advertised_host = 127.0.0.1
"""


class Server:
    """A broker, and the clients of one test."""

    def __init__(self, port, url, process=None):
        self.port, self.url, self.process, self.clients, self.names = port, url, process, [], 0

    @classmethod
    def start(cls, folder, config=CONFIG):
        process = warren.Warren(os.environ.get("WARREN_BIN", "warren"), pathlib.Path(folder), config)
        process.start()
        return cls(port_of(process), process.url, process)

    def restart(self):
        self.leave()
        self.process.kill()
        self.process.start()
        self.port = port_of(self.process)

    def client(self, **options):
        client = Client(options.pop("port", self.port), **options)
        self.clients.append(client)
        return client

    def name(self):
        self.names += 1
        return f"stream-{time.time_ns()}-{self.names}"

    def channel(self):
        connection = pika.BlockingConnection(pika.URLParameters(self.url))
        self.clients.append(connection)
        return connection.channel()

    def leave(self):
        for client in self.clients:
            try:
                client.close()
            except Exception:  # It is closed already.
                pass
        self.clients.clear()

    def ctl(self, *words):
        code, out, errors = self.process.ctl(*words)
        assert code == 0, errors
        return out

    def end(self):
        self.leave()
        if self.process and self.process.child.poll() is None:
            self.process.stop()


def port_of(process):
    return int(re.findall(r"^ready .* stream=127.0.0.1:(\d+)", process.log_text(), re.MULTILINE)[-1])


@pytest.fixture(scope="session")
def server():
    if "STREAM_PORT" in os.environ:
        yield Server(int(os.environ["STREAM_PORT"]), os.environ["AMQP_URL"])
        return
    with tempfile.TemporaryDirectory() as folder:
        server = Server.start(folder)
        yield server
        server.end()


@pytest.fixture
def broker(server):
    yield server
    server.leave()


@pytest.fixture
def own(server):
    """A broker that has `ctl`."""
    if server.process is None:
        pytest.skip("needs a broker of its own")
    yield server
    server.leave()


@pytest.fixture
def fresh(tmp_path):
    if "STREAM_PORT" in os.environ:
        pytest.skip("needs a broker of its own")
    server = Server.start(tmp_path)
    yield server
    server.end()


@pytest.fixture
def stream(broker):
    """A stream, and a client that has made it."""
    client, name = broker.client(), broker.name()
    assert client.create(name) == 1
    yield client, name
