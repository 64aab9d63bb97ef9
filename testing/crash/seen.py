#!/usr/bin/env python3
"""Memory of deduplicating exchanges and queues, and of exchanges with a recent history, over a clean stop and a SIGKILL.

    seen.py --warren target/release/warren

Checked: values of an exchange with x-cache-persistence = disk survive both (after the time in which they get to disk), those of one in
memory do not; a durable queue knows its messages after both; a durable exchange with a recent history gives a new queue its
messages after both, and those that are bound already do not get them again; a deleted exchange leaves no file. Exit code 0: all
holds.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time

import rawamqp as amqp
from broker import Broker

KEPT_AFTER_S = 3         # two rounds of a second, and some


class Violation(Exception):
    """Something that was promised does not hold."""


def connect(url):
    raw = amqp.Raw(url)
    raw.open_channel(1)
    raw.confirm_select(1)
    return raw


def offer(raw, exchange, key, queue, mark):
    """Publishes a marked message; tells whether it got into the queue."""
    before = raw.declare_queue(1, queue, passive=True)[1]
    raw.send(amqp.publish(1, exchange, key, b"m", headers=amqp.table({"x-deduplication-header": mark})))
    raw.expect(1, amqp.ACK)
    return raw.declare_queue(1, queue, passive=True)[1] > before


def count(raw, queue):
    return raw.declare_queue(1, queue, passive=True)[1]


def expect_history(raw, number, ends):
    """After that many ends the exchange has that many messages and one: a new queue gets them, the old one got each once."""
    raw.declare_queue(1, f"recent.{number}")
    raw.bind(1, f"recent.{number}", "recent", "")
    if count(raw, f"recent.{number}") != ends:
        raise Violation(f"a new queue got {count(raw, f'recent.{number}')} of the {ends} recent messages")
    if count(raw, "recent.old") != ends:
        raise Violation(f"a queue bound before has {count(raw, 'recent.old')} messages and not {ends}")


def expect(what, got, wanted):
    if got != wanted:
        raise Violation(f"{what}: {'got in' if got else 'was dropped'}")


def run(warren, folder):
    data = os.path.join(folder, "data")
    broker = Broker([warren, "server", "--listen", "127.0.0.1:{port}", "--data-dir", data], os.path.join(folder, "log"))
    broker.start()
    try:
        raw = connect(broker.url)
        for exchange, persistence in (("seen.disk", "disk"), ("seen.memory", "memory")):
            raw.declare_exchange(1, exchange, "x-message-deduplication", arguments={"x-cache-size": 1000, "x-cache-persistence": persistence})
            raw.declare_queue(1, exchange)
            raw.bind(1, exchange, exchange, "")
        raw.declare_exchange(1, "recent", "x-recent-history")
        raw.declare_queue(1, "recent.old")
        raw.bind(1, "recent.old", "recent", "")
        raw.declare_queue(1, "seen.queue", arguments={"x-message-deduplication": True})
        places = [("seen.disk", "", "seen.disk"), ("seen.memory", "", "seen.memory"), ("", "seen.queue", "seen.queue")]
        for number, end in enumerate((broker.stop, broker.kill)):
            mark = f"mark {number}"
            for place in places:
                expect(f"{place} at first", offer(raw, *place, mark), True)
                expect(f"{place} again", offer(raw, *place, mark), False)
            # Persistent, so that the queue has it too.
            raw.send(amqp.publish(1, "recent", "", b"m", persistent=True))
            raw.expect(1, amqp.ACK)
            if end == broker.kill:
                time.sleep(KEPT_AFTER_S)
            raw.close()
            end()
            broker.start()
            raw = connect(broker.url)
            expect_history(raw, number, number + 1)
            for place in places:
                expect(f"{place} after {end.__name__}", offer(raw, *place, mark), place[0] == "seen.memory")
                expect(f"{place} with a new mark", offer(raw, *place, f"new {number}"), True)
        raw.delete_exchange(1, "seen.disk")
        raw.delete_exchange(1, "recent")
        raw.close()
        broker.stop()
        broker.start()
        left = os.listdir(os.path.join(data, "seen"))
        if left:
            raise Violation(f"files of a deleted exchange: {left}")
    finally:
        if broker.alive():
            broker.kill()
    print("seen: values on disk and in queues and recent messages survive a stop and a kill: 1 passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warren", required=True)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="warren-seen-")
    try:
        run(options.warren, folder)
    except Violation as violation:
        print(f"seen: VIOLATION: {violation}\n  data kept in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
