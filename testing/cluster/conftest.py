"""Clusters of real nodes. WARREN_BIN is the binary."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from nodes import Cluster  # noqa: E402


@pytest.fixture
def binary():
    return os.environ.get("WARREN_BIN", "warren")


@pytest.fixture
def three(binary, tmp_path):
    with Cluster(binary, tmp_path, 3) as cluster:
        yield cluster
