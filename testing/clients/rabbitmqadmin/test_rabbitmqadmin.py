"""RabbitMQ's own rabbitmqadmin (the crate, unchanged) against Warren, every group of its commands, compared with what it said against
RabbitMQ 4.3 (seen.json, made by record.py). RABBITMQADMIN and WARREN_BIN name the two programs. Needs no RabbitMQ."""

import json
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "crash")]

import cases  # noqa: E402
import play  # noqa: E402
from warren import Warren  # noqa: E402

# Differences on purpose: the beginning of the command line, and why.
DIFFERS = {}
# Rows of tables with keys and values that only RabbitMQ has.
MEMORY = "parts of memory are Warren's own"
KEYS = {"show memory_breakdown": MEMORY, "nodes memory_breakdown": MEMORY}


@pytest.fixture(scope="session")
def answers(tmp_path_factory):
    server = Warren(os.environ["WARREN_BIN"], tmp_path_factory.mktemp("rabbitmqadmin"), "prometheus.tcp.port = 0\n")
    server.start()
    try:
        yield play.play(os.environ["RABBITMQADMIN"], server.port, int(server.http.rsplit(":", 1)[1]))
    finally:
        server.stop()


SEEN = json.loads((HERE / "seen.json").read_text())
LINES = [line for how, line, _ in cases.cases() if line]


def test_the_recording_is_of_these_lines():
    assert [one["line"] for one in SEEN] == LINES, "record again"


@pytest.mark.parametrize("at", range(len(LINES)), ids=[f"{at}-{line}"[:70] for at, line in enumerate(LINES)])
def test_it_says_what_it_says_of_rabbitmq(answers, at):
    one, seen = answers[at], SEEN[at]
    if any(one["line"].startswith(begin) for begin in DIFFERS):
        pytest.skip("different on purpose")
    assert one["exit"] == seen["exit"], f"{one}"
    if "out" in seen:
        assert (one["out"], one["err"]) == (seen["out"], seen["err"])
    if "columns" in seen:
        shown = play.columns(one["out"])
        missing = [name for name in seen["columns"] if name not in shown]
        assert not missing or any(one["line"].startswith(begin) for begin in KEYS), f"{one['line']}: {missing} of {seen['columns']} are not in {shown}"
