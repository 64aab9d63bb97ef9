"""Warren servers for shovels, and RabbitMQ beside them where it runs. WARREN_BIN is the binary."""

import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "crash"), str(HERE.parent / "management")]

from servers import Warren  # noqa: E402


@pytest.fixture
def warren(tmp_path):
    """Starts servers by name; all end with the test."""
    servers = []

    def start(name="a", config=""):
        folder = tmp_path / name
        folder.mkdir()
        servers.append(Warren(os.environ.get("WARREN_BIN", "warren"), folder, config))
        return servers[-1].start()

    yield start
    for server in servers:
        server.end()
