"""What `memory_breakdown` says explains what the process occupies, whatever it is busy with; memory goes back after a rush."""

import re
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import amqp  # noqa: E402  (the pipelining client of the benchmarks)

# Of what the process occupies, at most so much may have no name. A small process has two or three megabytes of odds and ends.
UNKNOWN_PART_MAX, UNKNOWN_BYTES_MIN = 0.10, 4_000_000
# The parts are counted one after the other: while it is at work they need not be of one moment.
CALM_WITHIN_S = 10
# Within this long memory that is not used is given back (every ten seconds it is thought about).
GIVEN_BACK_S = 60


def resident_bytes(server):
    status = Path(f"/proc/{server.process.child.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024


def connect(server):
    return amqp.Connection(f"amqp://127.0.0.1:{server.process.port}")


def breakdown(server):
    """The memory of the process, and its parts, of one moment: memory may be given back between two looks."""
    for _ in range(10):
        before = resident_bytes(server)
        parts = {name: part["bytes"] for name, part in server.listed("memory_breakdown").items()}
        resident = resident_bytes(server)
        if abs(resident - before) < 1 << 20:
            return resident, parts
        time.sleep(0.2)
    raise AssertionError("what the process occupies does not stand still for the time of a command")


def assert_explained(server):
    deadline = time.monotonic() + CALM_WITHIN_S
    while True:
        resident, parts = breakdown(server)
        allowed = max(resident * UNKNOWN_PART_MAX, UNKNOWN_BYTES_MIN)
        missing, unknown = abs(sum(parts.values()) - resident), parts["other_proc"]
        if missing < allowed and unknown < allowed:
            return
        assert time.monotonic() < deadline, f"of {resident} bytes {missing} are in no part and {unknown} have no name: {parts}"
        time.sleep(0.5)


def publish(server, queue, count, body, persistent):
    """Publishes so many messages, and waits until all are in the queue."""
    with connect(server) as connection:
        connection.pipeline([amqp.declare(queue)])
        batch = amqp.publish(queue, body, persistent) * 500
        for _ in range(count // 500):
            connection.send(batch)
        connection.pipeline([amqp.declare("after-" + queue)])


def test_a_fresh_node(server):
    assert_explained(server())


def test_many_idle_queues(server):
    server = server()
    with connect(server) as connection:
        connection.pipeline(amqp.declare(f"queue-{number}") for number in range(30_000))
    assert_explained(server)


def test_many_idle_connections(server):
    server = server()
    connections = [connect(server) for _ in range(500)]
    assert_explained(server)
    for connection in connections:
        connection.socket.close()


@pytest.mark.parametrize("persistent", [False, True])
def test_a_backlog_and_what_is_left_of_it(server, persistent):
    server = server()
    publish(server, "backlog", 200_000, b"x" * 100, persistent)
    assert_explained(server)
    server.do("purge_queue", "backlog")
    assert_explained(server)


def test_memory_goes_back_after_a_rush(server):
    server = server("vm_memory_high_watermark.absolute = 4GiB")
    before = resident_bytes(server)
    for number in range(100):
        publish(server, f"backlog-{number}", 3000, b"x" * 1000, False)
    full = resident_bytes(server)
    assert full > before + (250 << 20), "a hundred backlogs of 3 MB are in memory"
    assert_explained(server)
    for number in range(100):
        server.do("purge_queue", f"backlog-{number}")
    deadline = time.monotonic() + GIVEN_BACK_S
    while resident_bytes(server) > before + (48 << 20) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert resident_bytes(server) < before + (48 << 20), server.do("memory_breakdown", "--unit", "MB")
    assert_explained(server)
