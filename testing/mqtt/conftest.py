"""A Warren server with MQTT for all tests, and one per test that is restarted. WARREN_BIN is the binary."""

import os
import pathlib
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "crash")]

from clients import Server  # noqa: E402


@pytest.fixture(scope="session")
def server():
    with tempfile.TemporaryDirectory() as folder:
        server = Server(os.environ.get("WARREN_BIN", "warren"), pathlib.Path(folder)).start()
        yield server
        server.end()


@pytest.fixture
def broker(server):
    yield server
    server.leave()


@pytest.fixture
def fresh(tmp_path):
    server = Server(os.environ.get("WARREN_BIN", "warren"), tmp_path).start()
    yield server
    server.end()
