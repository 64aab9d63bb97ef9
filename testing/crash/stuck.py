#!/usr/bin/env python3
"""Messages that nobody acks, a few of very many: how much of the disk they keep, also when the broker is killed while it makes room.

    stuck.py --warren target/release/warren

Several queues are filled in turns, so that their backlogs go to segments, or one alone, so that it stays in the message log. A consumer gets
everything and acks all but one in some thousands, or in sixty: then no block is without one. Checked, of transient and persistent messages: what
is on disk shrinks to what those few take, and `disk_live_ratio` says so. With SIGKILL at the moment when the broker writes those to a new
segment, and when it has done so, those messages are there afterwards, in order, each once. No message comes back whose ack was on disk.
Exit code 0: all holds.
"""

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import rawamqp as amqp
from broker import Broker, Failed

BATCH = 50                # messages to a queue before it is the next one's turn
BODY = b"x" * 996         # behind four bytes of number
SHRUNK_WITHIN_S = 40
FENCE = "stuck.fence"


class Violation(Exception):
    """Something that was promised does not hold."""


class Case:
    """So many messages in each of so many queues; one of `every` stays."""

    def __init__(self, kind, queues, messages, every, end):
        self.kind, self.messages, self.every, self.end = kind, messages, every, end
        self.names = [f"stuck.{kind}.{nth}" for nth in range(queues)]
        self.wanted = [number for number in range(messages) if self.stays(number)]

    def stays(self, number):
        return number % self.every == self.every // 2

    def disk_bytes_max(self):
        """Of each queue twice what lives, and 16 MiB; of kept log files, of which each is 64 MiB, no more than twice what lives."""
        lives = len(self.wanted) * 1100
        return len(self.names) * (2 * lives + (16 << 20))


def fill(url, case):
    raw = amqp.Raw(url, timeout_s=60)
    raw.open_channel(1)
    raw.confirm_select(1)
    for name in case.names:
        raw.declare_queue(1, name)
    for first in range(0, case.messages, BATCH):
        for name in case.names:
            batch = (amqp.publish(1, "", name, struct.pack(">I", nth) + BODY, case.kind != "transient") for nth in range(first, first + BATCH))
            raw.send(b"".join(batch))
    for name in case.names:
        wait("everything published is in the queue", lambda: raw.declare_queue(1, name, passive=True)[1] == case.messages)
    return raw


def wait(what, holds, within_s=60):
    end = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end:
            raise Violation(f"not within {within_s} s: {what}")
        time.sleep(0.05)


def deliveries(raw, count):
    """(delivery tag, number of the message) of that many deliveries."""
    found, tag = [], None
    while True:
        for kind, _, payload in raw.frames():
            if kind == amqp.METHOD and struct.unpack_from(">HH", payload) == amqp.DELIVER:
                tag, = struct.unpack_from(">Q", payload, 5 + payload[4])
            elif kind == amqp.BODY:
                found.append((tag, *struct.unpack_from(">I", payload)))
        if len(found) >= count:
            return found
        if not raw.receive():
            raise Violation(f"{len(found)} of {count} messages came")


def ack_most(raw, case, name, channel):
    raw.open_channel(channel)
    raw.consume(channel, name)
    got = deliveries(raw, case.messages)
    if [number for _, number in got] != list(range(case.messages)):
        raise Violation(f"{name} is not in order")
    raw.send(b"".join(amqp.ack(channel, tag, multiple=False) for tag, number in got if not case.stays(number)))


def backlog_files(data):
    """Segments, and log files that no restart reads."""
    found = {}
    for folder, _, files in os.walk(data):
        for name in files:
            path = os.path.join(folder, name)
            if "/segments/" in path or name.endswith(".kept"):
                try:
                    found[path] = os.path.getsize(path)
                except FileNotFoundError:
                    pass
    return found


def backlog_bytes(data):
    return sum(backlog_files(data).values())


def listed(warren, data, column):
    told = subprocess.run([warren, "ctl", "--data-dir", data, "list_queues", "name", column, "--formatter", "json"],
                          capture_output=True, text=True, check=True)
    return {queue["name"]: queue[column] for queue in json.loads(told.stdout)}


def live_ratios(warren, data):
    return listed(warren, data, "disk_live_ratio")


def unacked(warren, data, names):
    counts = listed(warren, data, "messages_unacknowledged")
    return [counts[name] for name in names]


def expect_shrunk(data, case, when):
    wait(f"{when}: the backlog has at most {case.disk_bytes_max() >> 20} MiB, now {backlog_bytes(data) >> 20}",
         lambda: backlog_bytes(data) <= case.disk_bytes_max(), SHRUNK_WITHIN_S)


def expect_stuck(url, case):
    raw = amqp.Raw(url)
    for channel, name in enumerate(case.names, 1):
        raw.open_channel(channel)
        count = raw.declare_queue(channel, name, passive=True)[1]
        raw.consume(channel, name)
        got = [number for _, number in deliveries(raw, count)]
        if got != sorted(set(got)):
            raise Violation(f"{name} is not in order, or gives a message twice: {got}")
        missing = sorted(set(case.wanted) - set(got))
        if missing:
            raise Violation(f"{name} lost {missing}")
        if len(got) > len(case.wanted) and case.end is not kill_in_the_middle:
            raise Violation(f"{name} has {len(got)} messages and not {len(case.wanted)}: acked ones are back")
    raw.close()


def delete_all(url, case):
    raw = amqp.Raw(url)
    raw.open_channel(1)
    for name in case.names:
        raw.delete_queue(1, name)
    raw.close()


def settle(raw, warren, data, case):
    """Returns when every ack is on disk: a kill before that brings back messages whose ack is on its way."""
    wait("the broker has all acks", lambda: unacked(warren, data, case.names) == [len(case.wanted)] * len(case.names))
    raw.declare_queue(1, FENCE)
    raw.send(amqp.publish(1, "", FENCE, b"confirmed after all acks"))
    tag = 0
    while tag <= case.messages * len(case.names):
        tag, = struct.unpack_from(">Q", raw.expect(1, amqp.ACK, 60))
    raw.delete_queue(1, FENCE)


def kill_in_the_middle(broker, data, case):
    """When one more segment is written: the messages that stay are on their way there. Acks may be on their way to the broker."""
    known, end = {path for path in backlog_files(data) if "/segments/" in path}, time.monotonic() + 20
    while time.monotonic() < end and {path for path in backlog_files(data) if "/segments/" in path} <= known:
        time.sleep(0.001)
    broker.kill()


def kill_afterwards(broker, data, case):
    """When the old segments are gone."""
    expect_shrunk(data, case, "before the kill")
    broker.kill()


CASES = [
    Case("transient", 3, 40_000, 8_000, None),
    Case("early", 3, 40_000, 8_000, kill_in_the_middle),
    Case("late", 3, 40_000, 8_000, kill_afterwards),
    Case("amid.early", 3, 40_000, 60, kill_in_the_middle),
    Case("amid.late", 3, 40_000, 60, kill_afterwards),
    Case("logged.early", 1, 450_000, 60, kill_in_the_middle),
    Case("logged.late", 1, 450_000, 60, kill_afterwards),
]


def play(case, warren, data, broker):
    raw = fill(broker.url, case)
    before = backlog_bytes(data)
    for channel, name in enumerate(case.names, 2):
        ack_most(raw, case, name, channel)
    if case.end is kill_afterwards:
        settle(raw, warren, data, case)
    if case.end is None:
        expect_shrunk(data, case, case.kind)
        after = backlog_bytes(data)
        raw.close()
    else:
        case.end(broker, data, case)
        broker.start()
        expect_stuck(broker.url, case)
        after = backlog_bytes(data)
        broker.kill()
        broker.start()
        expect_stuck(broker.url, case)
    if case.end == kill_afterwards and case.every < 100:
        # Most of what the newest log files hold is dead, and is left there: what lies in segments is not.
        ratio = live_ratios(warren, data)[case.names[0]]
        if ratio < 0.4 and len(case.names) > 1:
            raise Violation(f"{case.names[0]} says that {ratio} of its bytes on disk live")
    delete_all(broker.url, case)
    return f"{case.kind}: {before / 2**20:.1f} MiB became {after / 2**20:.1f}"


def run(warren, folder, cases):
    data = os.path.join(folder, "data")
    os.makedirs(data)
    broker = Broker([warren, "server", "--listen", "127.0.0.1:{port}", "--data-dir", data], os.path.join(folder, "log"))
    broker.start()
    told = []
    try:
        for case in cases:
            told.append(play(case, warren, data, broker))
        broker.stop()
    except (Violation, Failed, AssertionError, amqp.Closed) as trouble:
        raise Violation(f"{trouble}\nbroker's log ends with:\n{broker.log_tail()}") from trouble
    finally:
        if broker.pid:
            broker.kill()
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warren", required=True, help="the binary")
    parser.add_argument("--only", help="cases with this in their name")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="stuck-")
    try:
        told = run(options.warren, folder, [case for case in CASES if (options.only or "") in case.kind])
    except Violation as trouble:
        print(f"stuck: FAILED: {trouble}", flush=True)
        return 1
    finally:
        shutil.rmtree(folder)
    print(f"stuck: {'; '.join(told)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
