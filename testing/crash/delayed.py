#!/usr/bin/env python3
"""Kills a broker while messages wait in a delayed exchange, again and again, and looks for what was promised and is gone.

A publisher with confirms sends persistent messages with random delays to a durable x-delayed-message exchange; the process dies
by SIGKILL at random points, before and while they fall due, and comes back on the same data after a pause. Checked:

  1. every confirmed message arrives at least once, with its body intact and its delay negated;
  2. none arrives before its delay is over, restarts or not;
  3. what was overdue at a start arrives soon after it, in the queue that was bound before;
  4. a message that an operator dropped before a kill does not arrive.

    delayed.py --warren target/release/warren [--cycles 6] [--seed N|random]

Exit code 0: all holds.
"""

import argparse
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import rawamqp as amqp
from broker import Broker
from seeds import add_seed

EXCHANGE, QUEUE = "delayed.x", "delayed.q"
BATCH = 400
DEADLINE_S = 60


class Violation(Exception):
    """Something that was promised does not hold."""


# The key of what is dropped: other messages, of a batch whose publisher has gone, may still come in behind it.
DROPPED = "dropped"


def declare(url):
    raw = amqp.Raw(url)
    raw.open_channel(1)
    raw.declare_exchange(1, EXCHANGE, "x-delayed-message", arguments={"x-delayed-type": "direct"})
    raw.declare_queue(1, QUEUE)
    raw.bind(1, QUEUE, EXCHANGE, "k")
    raw.bind(1, QUEUE, EXCHANGE, DROPPED)
    raw.close()


def publish(url, first, chance, kill_after):
    """Publishes a batch and kills the broker after some confirms. {number: (delay ms, time sent)} of what was confirmed."""
    raw = amqp.Raw(url)
    raw.open_channel(1)
    raw.confirm_select(1)
    sent = {}
    for number in range(first, first + BATCH):
        delay_ms = chance.choice([chance.randint(1, 50), chance.randint(50, 1500), chance.randint(1500, 4000)])
        body = b"%d|%d|" % (number, delay_ms) + bytes(chance.randint(0, 3000))
        sent[number] = (delay_ms, time.time())
        raw.send(amqp.publish(1, EXCHANGE, "k", body, headers=amqp.table({"x-delay": delay_ms})))
    confirmed, end = 0, time.monotonic() + DEADLINE_S
    while confirmed < kill_after:
        for kind, _, payload in raw.frames():
            if kind == amqp.METHOD and struct.unpack_from(">HH", payload) == amqp.ACK:
                confirmed = max(confirmed, struct.unpack_from(">Q", payload, 4)[0])
            elif kind == amqp.METHOD:
                raise Violation(f"instead of a confirm came {payload[:60]!r}")
        if time.monotonic() > end:
            raise Violation(f"{confirmed} of {BATCH} confirmed in {DEADLINE_S} s")
        if confirmed < kill_after:
            raw.receive()
    return {number: sent[number] for number in range(first, first + confirmed)}


def collect(url, wanted, sent, deadline_s):
    """Consumes with acks until everything wanted came; checks what comes. Returns the numbers that came."""
    raw = amqp.Raw(url, timeout_s=0.2)
    raw.open_channel(1)
    raw.consume(1, QUEUE)
    came, end = set(), time.monotonic() + deadline_s
    tag = 0
    properties = b""
    while not wanted <= came and time.monotonic() < end:
        raw.receive()
        for kind, _, payload in raw.frames():
            if kind == amqp.METHOD and struct.unpack_from(">HH", payload) == amqp.DELIVER:
                tag += 1
            elif kind == amqp.HEADER:
                properties = payload
            elif kind == amqp.BODY:
                number, delay_ms = map(int, payload.split(b"|")[:2])
                came.add(number)
                if number in sent:
                    check(number, delay_ms, sent[number], properties)
        if tag:
            raw.send(amqp.ack(1, tag))
    raw.close()
    return came


def check(number, delay_ms, promise, properties):
    expected, sent_s = promise
    if delay_ms != expected:
        raise Violation(f"message {number} has the body of another")
    # A millisecond for the rounding of clocks.
    if time.time() - sent_s < (delay_ms - 1) / 1000:
        raise Violation(f"message {number} came {delay_ms} ms too early")
    if b"\x07x-delay" + b"l" + struct.pack(">q", -delay_ms) not in properties:
        raise Violation(f"message {number} has no negated delay: {properties!r}")


def drop_one(warren, data, url, number):
    """Publishes a message that waits long, drops it as an operator does, and returns its number."""
    raw = amqp.Raw(url)
    raw.open_channel(1)
    raw.confirm_select(1)
    raw.send(amqp.publish(1, EXCHANGE, DROPPED, b"%d|2500|" % number, headers=amqp.table({"x-delay": 2500})))
    raw.expect(1, amqp.ACK)
    raw.close()
    ctl = [warren, "ctl", "--data-dir", data, "-q"]
    listing = [*ctl, "list_delayed_messages", "--no-table-headers", "--limit", "100000", EXCHANGE, "routing_key", "id"]
    rows = [line.split("\t") for line in subprocess.run(listing, check=True, capture_output=True, text=True).stdout.splitlines()]
    [identity] = [identity for key, identity in rows if key == DROPPED]
    subprocess.run([*ctl, "cancel_delayed_message", EXCHANGE, identity], check=True, stdout=subprocess.DEVNULL)
    return number


def run(options, folder):
    chance = random.Random(options.seed)
    data = os.path.join(folder, "data")
    broker = Broker([options.warren, "server", "--listen", "127.0.0.1:{port}", "--data-dir", data], os.path.join(folder, "log"))
    broker.start()
    sent, came, dropped, number = {}, set(), set(), 0
    try:
        declare(broker.url)
        for cycle in range(options.cycles):
            sent |= publish(broker.url, number, chance, chance.randint(1, BATCH))
            number += BATCH
            dropped.add(drop_one(options.warren, data, broker.url, number))
            number += 1
            if cycle % 2:
                came |= collect(broker.url, set(sent) - came, sent, chance.uniform(0.1, 1.5))
            # Dropping is as lazy as an ack: it is on disk with the next write at the latest.
            time.sleep(0.05)
            broker.kill()
            time.sleep(chance.uniform(0, 1.0))
            broker.start()
        waits = max([delay_ms / 1000 - (time.time() - at) for delay_ms, at in sent.values()] + [0])
        came |= collect(broker.url, set(sent) - came, sent, waits + 15)
        missing = set(sent) - came
        if missing:
            raise Violation(f"{len(missing)} of {len(sent)} confirmed messages never came: {sorted(missing)[:10]}")
        if dropped & came:
            raise Violation(f"dropped messages came: {sorted(dropped & came)}")
        broker.stop()
    finally:
        if broker.alive():
            broker.kill()
    print(f"delayed: {options.cycles} kills, {len(sent)} confirmed messages came, {len(dropped)} dropped ones did not")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warren", required=True)
    parser.add_argument("--cycles", type=int, default=6)
    add_seed(parser)
    options = parser.parse_args()
    print(f"delayed: seed {options.seed}", flush=True)
    folder = tempfile.mkdtemp(prefix="warren-delayed-")
    try:
        run(options, folder)
    except Violation as violation:
        print(f"delayed: VIOLATION with seed {options.seed}: {violation}\n  data kept in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
