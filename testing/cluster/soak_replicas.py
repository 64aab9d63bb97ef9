"""Load on a quorum queue of three real nodes while they are killed, paused and cut off at random: nothing that was confirmed may be lost.

    soak_replicas.py --warren BINARY [--minutes 60] [--seed N]

Publishers on each node wait for each confirm; consumers on each node ack what they get. In the end all is healed and drained. A message that was
confirmed and that nobody ever got is a loss. Messages may come twice.
"""

import argparse
import contextlib
import pathlib
import random
import sys
import tempfile
import threading
import time

import pika

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from nodes import Cluster, eventually  # noqa: E402
from test_queues import PERSISTENT, connected  # noqa: E402
from test_replicas import declare, drain  # noqa: E402

FAILURES = (pika.exceptions.AMQPError, OSError, AssertionError)
QUEUE = "soak"


class Load:
    """Clients of one node."""

    def __init__(self, node, number):
        self.node, self.number = node, number
        self.confirmed, self.seen = [], set()
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self.again, args=(what,), daemon=True) for what in (self.publish, self.consume)]
        for thread in self.threads:
            thread.start()

    def again(self, what):
        while not self.stop.is_set():
            with contextlib.suppress(*FAILURES), connected(self.node) as connection:
                what(connection)
            time.sleep(0.1)

    def publish(self, connection):
        channel = connection.channel()
        channel.confirm_delivery()
        while not self.stop.is_set():
            body = f"{self.number}-{time.monotonic_ns()}".encode()
            with contextlib.suppress(pika.exceptions.NackError):
                channel.basic_publish("", QUEUE, body, PERSISTENT, mandatory=True)
                self.confirmed.append(body)

    def consume(self, connection):
        channel = connection.channel()
        channel.basic_qos(prefetch_count=500)

        def take(channel, method, _, body):
            self.seen.add(body)
            # Some stay unacked until the connection ends.
            if random.random() < 0.98:
                channel.basic_ack(method.delivery_tag)

        channel.basic_consume(QUEUE, take)
        end = time.monotonic() + random.uniform(2, 8)
        while not self.stop.is_set() and time.monotonic() < end:
            connection.process_data_events(time_limit=0.1)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(60)


def faults(cluster, node, other):
    """Each with its name, its begin, its end, and the seconds that it lasts at most."""
    rest = [it for it in cluster.nodes if it is not node]
    kill = (f"kill {node.name}", node.kill, node.launch, 4)
    return [
        kill,
        kill,
        (f"pause {node.name}", node.pause, node.resume, 6),
        (f"cut off {node.name}", lambda: cluster.partition([node], rest), cluster.heal, 6),
        (f"nothing of {node.name} reaches {other.name}", lambda: cluster.cut(node, other), cluster.heal, 6),
    ]


def disturb(cluster, dice):
    """One fault on a node; its name."""
    name, begin, end, seconds_max = dice.choice(faults(cluster, *dice.sample(cluster.nodes, 2)))
    begin()
    time.sleep(dice.uniform(0.1, seconds_max))
    end()
    return name


def drained(node):
    """The messages that are left, by a node that answers."""
    with contextlib.suppress(*FAILURES):
        return set(drain(node, QUEUE, 100))
    return None


def campaign(binary, minutes, seed):
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, Cluster(binary, folder, 3) as cluster:
        declare(cluster.nodes[0], QUEUE)
        loads = [Load(node, number) for number, node in enumerate(cluster.nodes)]
        end, count = time.monotonic() + minutes * 60, 0
        while time.monotonic() < end:
            time.sleep(dice.uniform(0.5, 4))
            what = disturb(cluster, dice)
            count += 1
            print(f"{count}: {what}; confirmed {sum(len(load.confirmed) for load in loads)}", flush=True)
        for load in loads:
            load.end()
        cluster.heal()
        cluster.wait(cluster.nodes, deadline_s=120)
        confirmed = {body for load in loads for body in load.confirmed}
        seen = {body for load in loads for body in load.seen}
        left = set()
        # Messages that a connection had not acked come back for a moment after it has ended.
        for _ in range(5):
            time.sleep(2)
            more = []
            eventually(lambda: (more.append(drained(cluster.nodes[0])), more[-1] is not None)[1], "the queue is drained", 120)
            left |= more[-1]
        lost = confirmed - seen - left
        print(f"seed {seed}: {count} faults, {len(confirmed)} confirmed, {len(seen)} delivered, {len(left)} left, {len(lost)} lost")
        return 1 if lost else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warren", required=True)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    asked = parser.parse_args()
    sys.exit(campaign(asked.warren, asked.minutes, asked.seed))


if __name__ == "__main__":
    main()
