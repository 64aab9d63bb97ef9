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


def kill(cluster, dice):
    node = dice.choice(cluster.nodes)
    node.kill()
    time.sleep(dice.uniform(0.1, 4))
    node.launch()
    return f"kill {node.name}"


def pause(cluster, dice):
    node = dice.choice(cluster.nodes)
    node.pause()
    time.sleep(dice.uniform(0.1, 6))
    node.resume()
    return f"pause {node.name}"


def part(cluster, dice):
    node = dice.choice(cluster.nodes)
    cluster.partition([node], [other for other in cluster.nodes if other is not node])
    time.sleep(dice.uniform(0.5, 6))
    cluster.heal()
    return f"cut off {node.name}"


def one_way(cluster, dice):
    sender, receiver = dice.sample(cluster.nodes, 2)
    cluster.cut(sender, receiver)
    time.sleep(dice.uniform(0.5, 6))
    cluster.heal()
    return f"nothing of {sender.name} reaches {receiver.name}"


def drain(node):
    """The messages that are left, by a node that answers."""
    left = set()
    with connected(node) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=500)
        for method, _, body in channel.consume(QUEUE, inactivity_timeout=3):
            if method is None:
                channel.cancel()
                return left
            left.add(body)
            channel.basic_ack(method.delivery_tag)


def drained(node):
    with contextlib.suppress(*FAILURES):
        return drain(node)
    return None


def campaign(binary, minutes, seed):
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, Cluster(binary, folder, 3) as cluster:
        with connected(cluster.nodes[0]) as connection:
            connection.channel().queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
        loads = [Load(node, number) for number, node in enumerate(cluster.nodes)]
        end, faults = time.monotonic() + minutes * 60, 0
        while time.monotonic() < end:
            time.sleep(dice.uniform(0.5, 4))
            what = dice.choice([kill, kill, pause, part, one_way])(cluster, dice)
            faults += 1
            print(f"{faults}: {what}; confirmed {sum(len(load.confirmed) for load in loads)}", flush=True)
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
        print(f"seed {seed}: {faults} faults, {len(confirmed)} confirmed, {len(seen)} delivered, {len(left)} left, {len(lost)} lost")
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
