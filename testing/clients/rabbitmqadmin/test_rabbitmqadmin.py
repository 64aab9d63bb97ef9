"""RabbitMQ's own rabbitmqadmin (the crate, unchanged) against Warren, every group of its commands, compared with what it said against
RabbitMQ 4.3 (seen.json, made by record.py). RABBITMQADMIN and WARREN_BIN name the two programs. Needs no RabbitMQ."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

import cases  # noqa: E402
import play  # noqa: E402

# What is different on purpose: the beginning of the command line, and why.
DIFFERS = {}
# Rows of tables with keys and values that only RabbitMQ has.
MEMORY = "parts of memory are Warren's own"
KEYS = {"show memory_breakdown": MEMORY, "nodes memory_breakdown": MEMORY}


@pytest.fixture(scope="session")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rabbitmqadmin")
    command = [os.environ["WARREN_BIN"], "server", "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0", "--data-dir", str(folder / "data")]
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            ready = re.match(r"ready amqp=\S+:(\d+) http=\S+:(\d+)", server.stdout.readline())
            yield play.play(os.environ["RABBITMQADMIN"], int(ready[1]), int(ready[2]))
        finally:
            server.terminate()
            assert server.wait(30) == 0


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
