#!/usr/bin/env python3
"""Kills a broker while streams are written and read, again and again, and looks for anything that was promised and is gone.

Two publishers with confirms write to a stream with small segment files; a tail reader reads along. The process dies by SIGKILL, or now and
then is stopped by SIGTERM, and comes back on the same data, with syncs and without in turn.
Checked after each start, from the first offset to the last:

  1. every confirmed message is there;
  2. per publisher, messages are in the order of publishing, each once;
  3. offsets have no gaps, and what a reader has seen is there again under the offset that it had;
  4. what lies before an offset is not delivered to who asks for that offset.

    streams.py --warren target/release/warren [--cycles 12] [--seed N|random]

Exit code 0: nothing was lost.
"""

import argparse
import random
import shutil
import struct
import sys
import tempfile
import threading
import time

import rawamqp as amqp
from broker import Broker, Failed

STREAM = "crash.stream"
ARGUMENTS = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 300_000}
PUBLISHERS = 2
DURABILITIES = ("fsync", "os")
WINDOW = 300


class Violation(Exception):
    """Something that was promised does not hold."""


def offset_in(header):
    at = header.index(b"\x0fx-stream-offsetl") + 17
    return struct.unpack_from(">q", header, at)[0]


class Publisher(threading.Thread):
    """Publishes numbers; knows how far they are confirmed."""

    def __init__(self, url, nth, first):
        super().__init__(daemon=True)
        self.url, self.nth, self.next, self.confirmed, self.failure = url, nth, first, first - 1, None
        self.is_over = threading.Event()

    def run(self):
        try:
            raw = amqp.Raw(self.url)
            raw.open_channel(1)
            raw.confirm_select(1)
            begin, sent, got = self.next, 0, 0
            rng = random.Random(self.next)
            while not self.is_over.is_set():
                burst = b""
                while sent - got < WINDOW and len(burst) < 50_000:
                    body = b"%d|%d|" % (self.nth, self.next) + b"x" * rng.randrange(600)
                    burst += amqp.publish(1, "", STREAM, body)
                    self.next, sent = self.next + 1, sent + 1
                if burst:
                    raw.send(burst)
                raw.receive()
                for kind, _, payload in raw.frames():
                    ids = struct.unpack_from(">HH", payload) if kind == amqp.METHOD else None
                    if ids == amqp.ACK:
                        tag, multiple = struct.unpack_from(">QB", payload, 4)
                        assert multiple or tag == got + 1, "confirms of one queue come in order"
                        got = max(got, tag)
                        self.confirmed = begin + got - 1
                    elif ids == amqp.NACK:
                        self.failure = "a message was refused"
        except (OSError, amqp.Closed):
            pass


def read(url, offset, until):
    """(offset, publisher, number) of deliveries from an offset on, until `until(seen)`."""
    raw = amqp.Raw(url)
    raw.open_channel(1)
    raw.qos(1, 2000)
    arguments = amqp.table({"x-stream-offset": offset})
    raw.call(1, amqp.CONSUME, b"\0\0" + amqp.short(STREAM) + amqp.short("t") + b"\0" + arguments, amqp.CONSUME_OK)
    seen, at, count = [], None, 0
    try:
        while not until(seen):
            for kind, _, payload in list(raw.frames()):
                if kind == amqp.HEADER:
                    at = offset_in(payload)
                elif kind == amqp.BODY:
                    nth, number, _ = payload.split(b"|", 2)
                    seen.append((at, int(nth), int(number)))
                    count += 1
                    if count % 500 == 0:
                        raw.send(amqp.ack(1, count))
            if not until(seen):
                raw.receive()
    except (OSError, amqp.Closed):
        pass
    raw.close()
    return seen


class Tail(threading.Thread):
    """Reads along from the end."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url, self.seen, self.is_over = url, [], threading.Event()

    def run(self):
        try:
            self.seen = read(self.url, "next", lambda _: self.is_over.is_set())
        except (OSError, amqp.Closed, TimeoutError):
            pass


def message_count(url):
    raw = amqp.Raw(url)
    raw.open_channel(1)
    _, count, _ = raw.declare_queue(1, STREAM, passive=True)
    raw.close()
    return count


def check(url, known, confirmed, rng):
    count = message_count(url)
    all_seen = read(url, "first", lambda seen: len(seen) >= count)
    if [offset for offset, _, _ in all_seen] != list(range(count)):
        raise Violation("offsets have gaps, or repeat")
    for nth in range(PUBLISHERS):
        numbers = [number for _, publisher, number in all_seen if publisher == nth]
        if any(second <= first for first, second in zip(numbers, numbers[1:])):
            raise Violation(f"messages of publisher {nth} are not in order, or twice")
        missing = set(confirmed[nth]) - set(numbers)
        if missing:
            raise Violation(f"{len(missing)} confirmed messages of publisher {nth} are gone, the first is {min(missing)}")
    for offset, nth, number in known:
        if offset >= count or all_seen[offset] != (offset, nth, number):
            raise Violation(f"a reader saw ({nth}, {number}) at offset {offset}; now there is {all_seen[offset:offset + 1]}")
    if count:
        start = rng.randrange(count)
        part = read(url, start, lambda seen: len(seen) >= count - start)
        if part != all_seen[start:]:
            raise Violation(f"who asks for offset {start} gets something else")
    return all_seen


def configure(path, durability):
    """The settings of the next start. Without syncs publishing threads write to the files, with them threads of the streams do."""
    with open(path, "w") as file:
        file.write(f"prometheus.tcp.listener = none\nmanagement.tcp.port = 0\nwarren.durability = {durability}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--warren", required=True)
    parser.add_argument("--cycles", type=int, default=12)
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    seed = random.randrange(2**32) if options.seed == "random" else int(options.seed)
    print(f"streams: seed {seed}, {options.cycles} cycles", flush=True)
    rng, folder = random.Random(seed), tempfile.mkdtemp(prefix="streams-")
    settings = f"{folder}/warren.conf"
    configure(settings, "fsync")
    command = [options.warren, "server", "--listen", "127.0.0.1:{port}", "--data-dir", f"{folder}/data", "--config", settings]
    broker = Broker(command, f"{folder}/log")
    confirmed, known, next_number = [[] for _ in range(PUBLISHERS)], [], [0] * PUBLISHERS
    try:
        broker.start()
        raw = amqp.Raw(broker.url)
        raw.open_channel(1)
        raw.declare_queue(1, STREAM, arguments=ARGUMENTS)
        raw.close()
        for cycle in range(options.cycles):
            tail = Tail(broker.url)
            publishers = [Publisher(broker.url, nth, next_number[nth]) for nth in range(PUBLISHERS)]
            for thread in [tail, *publishers]:
                thread.start()
            time.sleep(rng.uniform(0.3, 2.0))
            is_clean = rng.random() < 0.25
            broker.stop() if is_clean else broker.kill()
            for thread in [tail, *publishers]:
                thread.is_over.set()
                thread.join(20)
            for publisher in publishers:
                if publisher.failure:
                    raise Violation(publisher.failure)
                confirmed[publisher.nth] += range(next_number[publisher.nth], publisher.confirmed + 1)
                next_number[publisher.nth] = publisher.next
            configure(settings, DURABILITIES[(cycle + 1) % 2])
            broker.start()
            seen = check(broker.url, known + tail.seen, confirmed, rng)
            known = seen
            print(f"  {cycle + 1}: {'stopped' if is_clean else 'killed'}, {len(seen)} messages, tail saw {len(tail.seen)}", flush=True)
        broker.stop()
    except (Violation, Failed) as error:
        print(f"FAILED (seed {seed}, data in {folder}): {error}", file=sys.stderr)
        broker.kill()
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
