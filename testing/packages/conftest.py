"""Common parts of the suite of packages. `WARREN_BIN` names the binary; `CACHE` is the folder of testing/setup.sh."""

import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CACHE = pathlib.Path(os.environ.get("CACHE") or ROOT / ".cache").resolve()
sys.path.insert(0, str(CACHE / "packages" / "python"))


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def cache():
    return CACHE


@pytest.fixture(scope="session")
def binary():
    return os.environ.get("WARREN_BIN") or pytest.exit("WARREN_BIN names the binary to test", 2)
