"""Warren servers for shovels, and RabbitMQ beside them where it runs. WARREN_BIN is the binary."""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "crash"), str(HERE.parent / "management")]

from served import configured  # noqa: E402, F401
from servers import Warren  # noqa: E402


@pytest.fixture(scope="session")
def kind():
    return Warren


@pytest.fixture
def warren(configured):  # noqa: F811
    """Starts servers by name; all end with the test."""
    return lambda name="a", config="": configured(config, name)
