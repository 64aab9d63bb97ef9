"""A Warren to listen to. WARREN_BIN is the binary."""

import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("conformance", "management", "crash", "shovel"))]

from servers import Warren  # noqa: E402
from stage import Stage  # noqa: E402


@pytest.fixture(scope="session")
def stage(tmp_path_factory):
    binary = os.environ.get("WARREN_BIN", "warren")
    server = Warren(binary, tmp_path_factory.mktemp("events"), "disk_free_limit.absolute = 50MB\nwarren.event_exchange = true\n").start()
    stage = Stage(server.url, server.api.base, [binary, "ctl", "--data-dir", str(server.data)], "warren@localhost")
    stage.prepare()
    yield stage
    stage.clean()
    server.end()
