#!/usr/bin/env python3
"""Messages that nobody acks, a few of very many: how much of the disk they keep, also when the broker is killed while it makes room.

    stuck.py --warren target/release/warren

Several queues are filled in turns, so that their backlogs go to segments. A consumer gets everything and acks all but one in some
thousands. Checked, of transient and persistent messages: the segments shrink to what the blocks of those few take. With SIGKILL at the
moment when the broker writes those to a new segment, and when it has done so, exactly those messages are there afterwards, in order,
each once. Exit code 0: all holds.
"""

import argparse
import os
import shutil
import struct
import sys
import tempfile
import time

import rawamqp as amqp
from broker import Broker, Failed

QUEUES, MESSAGES, STUCK_EVERY = 3, 40_000, 8_000
BATCH = 50                # messages to a queue before it is the next one's turn
BODY = b"x" * 996         # behind four bytes of number
SHRUNK_WITHIN_S = 40


class Violation(Exception):
    """Something that was promised does not hold."""


def names(kind):
    return [f"stuck.{kind}.{nth}" for nth in range(QUEUES)]


def fill(url, kind):
    raw = amqp.Raw(url, timeout_s=60)
    raw.open_channel(1)
    raw.confirm_select(1)
    for name in names(kind):
        raw.declare_queue(1, name)
    for first in range(0, MESSAGES, BATCH):
        for name in names(kind):
            batch = (amqp.publish(1, "", name, struct.pack(">I", nth) + BODY, kind != "transient") for nth in range(first, first + BATCH))
            raw.send(b"".join(batch))
    for name in names(kind):
        wait("everything published is in the queue", lambda: raw.declare_queue(1, name, passive=True)[1] == MESSAGES)
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


def ack_most(raw, name, channel):
    raw.open_channel(channel)
    raw.consume(channel, name)
    got = deliveries(raw, MESSAGES)
    if [number for _, number in got] != list(range(MESSAGES)):
        raise Violation(f"{name} is not in order")
    raw.send(b"".join(amqp.ack(channel, tag, multiple=False) for tag, number in got if number % STUCK_EVERY != STUCK_EVERY // 2))


def segment_files(data):
    found = {}
    for folder, _, files in os.walk(os.path.join(data, "segments")):
        for name in files:
            try:
                found[os.path.join(folder, name)] = os.path.getsize(os.path.join(folder, name))
            except FileNotFoundError:
                pass
    return found


def segment_bytes(data):
    return sum(segment_files(data).values())


def stuck_bytes_max():
    """Of each queue what the blocks of its stuck messages have, 256 KiB at most each, as much again, and 16 MiB (docs/storage.md)."""
    return QUEUES * (2 * (MESSAGES // STUCK_EVERY) * (256 << 10) + (16 << 20))


def expect_shrunk(data, when):
    wait(f"{when}: segments have at most {stuck_bytes_max() >> 20} MiB, now {segment_bytes(data) >> 20}",
         lambda: segment_bytes(data) <= stuck_bytes_max(), SHRUNK_WITHIN_S)


def expect_stuck(url, kind):
    raw = amqp.Raw(url)
    wanted = [number for number in range(MESSAGES) if number % STUCK_EVERY == STUCK_EVERY // 2]
    for channel, name in enumerate(names(kind), 1):
        raw.open_channel(channel)
        count = raw.declare_queue(channel, name, passive=True)[1]
        if count != len(wanted):
            raise Violation(f"{name} has {count} messages and not {len(wanted)}")
        raw.consume(channel, name)
        got = [number for _, number in deliveries(raw, len(wanted))]
        if got != wanted:
            raise Violation(f"{name} gives {got} and not {wanted}")
    raw.close()


def delete_all(url, kind):
    raw = amqp.Raw(url)
    raw.open_channel(1)
    for name in names(kind):
        raw.delete_queue(1, name)
    raw.close()


def kill_in_the_middle(broker, data):
    """When one more segment is written: what is needed is on its way there."""
    known, end = set(segment_files(data)), time.monotonic() + 10
    while time.monotonic() < end and set(segment_files(data)) <= known:
        time.sleep(0.001)
    broker.kill()


def kill_afterwards(broker, data):
    """When the old segments are gone."""
    expect_shrunk(data, "before the kill")
    broker.kill()


def run(warren, folder):
    data = os.path.join(folder, "data")
    os.makedirs(data)
    broker = Broker([warren, "server", "--listen", "127.0.0.1:{port}", "--data-dir", data], os.path.join(folder, "log"))
    broker.start()
    told = []
    try:
        for kind, end in (("transient", None), ("early", kill_in_the_middle), ("late", kill_afterwards)):
            raw = fill(broker.url, kind)
            before = segment_bytes(data)
            for channel, name in enumerate(names(kind), 2):
                ack_most(raw, name, channel)
            if end is None:
                expect_shrunk(data, kind)
                after = segment_bytes(data)
                raw.close()
            else:
                end(broker, data)
                broker.start()
                expect_stuck(broker.url, kind)
                after = segment_bytes(data)
                broker.kill()
                broker.start()
                expect_stuck(broker.url, kind)
            told.append(f"{kind}: {before / 2**20:.1f} MiB became {after / 2**20:.1f}")
            delete_all(broker.url, kind)
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
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="stuck-")
    try:
        told = run(options.warren, folder)
    except Violation as trouble:
        print(f"stuck: FAILED: {trouble}", flush=True)
        return 1
    finally:
        shutil.rmtree(folder)
    print(f"stuck: {'; '.join(told)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
