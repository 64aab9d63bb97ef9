"""A Warren server with STOMP for all tests, and one per test that is restarted or configured. WARREN_BIN is the binary."""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "crash")]

from clients import Server  # noqa: E402
from served import broker, configured, server  # noqa: E402, F401


@pytest.fixture(scope="session")
def kind():
    return Server
