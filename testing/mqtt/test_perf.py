"""`warren perf --mqtt` used as people use it: counts that must come out exactly, and nothing left behind."""

import json
import os
import subprocess

import pytest
from served import until

DEADLINE_S = 60


def perf(broker, *words, check=True, uri=None):
    uri = uri or f"mqtt://guest:guest@127.0.0.1:{broker.port}"
    command = [os.environ.get("WARREN_BIN", "warren"), "perf", "--mqtt", "--uri", uri, "--json", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    if not check:
        return done
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("protocol", ["3.1", "3.1.1", "5"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_published_comes(broker, qos, protocol):
    said, _ = perf(broker, "--protocol", protocol, "--qos", qos, "--rate", 1000, "--time", 30, "--cmessages", 500, "--topics", f"perf/{qos}")
    assert 500 <= said["consumed"] <= said["published"], said
    assert said["refused"] == 0 and said["confirmed"] > 0 and said["latency_p50_us"] > 0
    # No message was lost by the broker: those that are not consumed were on their way at the end.
    assert said["published"] - said["consumed"] < 1000


def test_every_subscriber_has_every_message(broker):
    said, told = perf(broker, "--consumers", 300, "--threads", 2, "--rate", 50, "--cmessages", 20, "--time", 30)
    assert said["consumed"] >= 300 * 20 and "300 clients have connected" in told


def test_windows_hold(broker):
    said, _ = perf(broker, "--qos", 1, "--confirm", 1, "--batch-size", 1, "--consumers", 0, "--time", 1)
    assert said["confirmed"] > 10 and 0 <= said["published"] - said["confirmed"] <= 1


def test_idle_clients_and_those_that_change_much(broker):
    _, told = perf(broker, "--connections", 500, "--time", 1, "--pid", broker.process.child.pid)
    assert "500 clients have connected" in told and "the broker grew by" in told
    said, _ = perf(broker, "--reconnects", 5, "--time", 2)
    assert said["confirmed"] > 5 and said["published"] - said["confirmed"] <= 5
    said, _ = perf(broker, "--churn", 5, "--batch-size", 20, "--time", 2)
    assert said["confirmed"] > 100 and said["confirmed"] % 20 == 0


def test_sessions_that_outlive_connections_are_deleted(broker):
    words = ["--persistent", "--qos", 1, "--consumers", 3, "--producers", 1, "--rate", 100, "--time", 1, "--id", "left"]
    left = lambda: sorted(name for name, in broker.rows("list_queues", "name") if "-left-" in name)
    perf(broker, *words)
    until("no queue", lambda: not left())
    perf(broker, *words, "--keep")
    assert left() == [f"mqtt-subscription-left-subscriber-{nth}qos1" for nth in range(3)]
    perf(broker, *words)
    until("no queue", lambda: not left())


def test_mistakes_are_said(broker):
    done = perf(broker, "--qos", 3, check=False)
    assert done.returncode == 2 and "0..=2" in done.stderr
    done = perf(broker, uri="amqp://localhost", check=False)
    assert done.returncode != 0 and "mqtt://" in done.stderr
    done = perf(broker, uri=f"mqtt://nobody:x@127.0.0.1:{broker.port}", check=False)
    assert done.returncode != 0 and "refuses the login" in done.stderr
