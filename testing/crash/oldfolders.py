#!/usr/bin/env python3
"""Data folders that older versions wrote, as they were written (`testing/crash/folders`): today's broker opens them, and every message is
there, whole and in its order. Each is opened twice, so that what today's broker writes there is read, too.

    oldfolders.py --warren target/release/warren
    oldfolders.py --warren some/older/warren --make NAME      adds testing/crash/folders/NAME.tar.xz

`--make` has the broker killed, so that its log is as the last write left it. Takes about 5 s.
"""

import argparse
import glob
import os
import subprocess
import sys
import tarfile
import tempfile

import pika

from broker import Broker, Failed

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDERS = os.path.join(HERE, "folders")
PERSISTENT = pika.BasicProperties(delivery_mode=2, content_type="text/plain", headers={"kept": "as it was"})
SETTLED = 300
# Messages of 8 MiB that come and go, so that old files of the log go: queues then have their state written, to segments and the log.
CHURN = 45
# Queue: messages, bytes of a body. Messages of `alone` come one after the other, those of the others take turns.
BACKLOGS = {queue: (640, 8000) for queue in ("alone", "turn0", "turn1", "turn2")}
LARGE = {"fan0": (12, 20000), "fan1": (12, 20000), "fan2": (12, 20000)}


def body(queue, nth, length):
    head = f"{queue} {nth} ".encode()
    return head + b"x" * (length - len(head))


def expected():
    """Queue: bodies in their order."""
    found = {queue: [body(queue, nth, length) for nth in range(count)] for queue, (count, length) in BACKLOGS.items()}
    found["alone"] = [one for nth, one in enumerate(found["alone"]) if nth >= SETTLED or nth % 7]
    found |= {queue: [body("fan", nth, length) for nth in range(count)] for queue, (count, length) in LARGE.items()}
    found["fan1"] = found["fan1"][5:]
    found["levels"] = [body("levels", nth, 100) for level in (2, 1, 0) for nth in range(30) if nth % 3 == level]
    found["churn"] = []
    found["routed"] = [body("routed", 0, 50)]
    found["dead"] = [body("dying", nth, 60) for nth in range(4)]
    return found


def fill(channel):
    channel.confirm_delivery()
    for queue in [*BACKLOGS, *LARGE, "routed", "dead"]:
        channel.queue_declare(queue, durable=True)
    channel.queue_declare("levels", durable=True, arguments={"x-max-priority": 3})
    channel.queue_declare("dying", durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    channel.exchange_declare("router", "topic", durable=True)
    channel.queue_bind("routed", "router", "a.*.#")
    channel.exchange_declare("fan", "fanout", durable=True)
    for queue in LARGE:
        channel.queue_bind(queue, "fan")

    def publish(exchange, key, what, properties=PERSISTENT):
        channel.basic_publish(exchange, key, what, properties)

    channel.queue_declare("churn", durable=True)

    for nth in range(30):
        level = pika.BasicProperties(delivery_mode=2, priority=nth % 3)
        publish("", "levels", body("levels", nth, 100), level)
    for nth in range(LARGE["fan0"][0]):
        publish("fan", "", body("fan", nth, LARGE["fan0"][1]))
    count, length = BACKLOGS["alone"]
    for nth in range(count):
        publish("", "alone", body("alone", nth, length))
    for nth in range(BACKLOGS["turn0"][0]):
        for queue in ("turn0", "turn1", "turn2"):
            publish("", queue, body(queue, nth, length))
    for nth in range(SETTLED):
        got, _, _ = channel.basic_get("alone")
        if nth % 7 == 0:
            channel.basic_ack(got.delivery_tag)
    for nth in range(5):
        got, _, _ = channel.basic_get("fan1")
        channel.basic_ack(got.delivery_tag)
    for nth in range(CHURN):
        publish("", "churn", b"x" * (8 << 20))
        got, _, _ = channel.basic_get("churn")
        channel.basic_ack(got.delivery_tag)
    for nth in range(4):
        publish("", "dying", body("dying", nth, 60))
        got, _, _ = channel.basic_get("dying")
        channel.basic_reject(got.delivery_tag, requeue=False)
    publish("router", "a.b.c", body("routed", 0, 50))
    # Transient ones are not among what is expected.
    channel.basic_publish("", "routed", b"transient")


def server(warren, folder, log):
    return Broker([warren, "server", "--listen", "127.0.0.1:0", "--data-dir", folder], log)


def make(warren, name):
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "data")
        broker = server(warren, folder, os.path.join(work, "log"))
        broker.start()
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        fill(connection.channel())
        subprocess.run([warren, "ctl", "--data-dir", folder, "list_queues", "name", "messages"], check=True)
        broker.kill()
        os.makedirs(FOLDERS, exist_ok=True)
        path = os.path.join(FOLDERS, name + ".tar.xz")
        kept = lambda member: None if member.name.endswith(".sock") else member
        with tarfile.open(path, "w:xz", preset=9) as archive:
            archive.add(folder, "data", filter=kept)
    print(f"{path}: {os.path.getsize(path)} bytes")


def look(channel, queue, bodies):
    """Compares, and leaves the messages there."""
    for nth, one in enumerate(bodies):
        got, properties, found = channel.basic_get(queue)
        if got is None:
            return f"{queue}: {len(bodies) - nth} of {len(bodies)} messages are missing"
        if found != one:
            return f"{queue}: message {nth} is {found[:20]!r}..., {len(found)} bytes, instead of {one[:20]!r}..., {len(one)} bytes"
        if queue in BACKLOGS and properties != PERSISTENT:
            return f"{queue}: message {nth} has other properties: {properties}"
    if channel.basic_get(queue)[0] is not None:
        return f"{queue}: there are more than {len(bodies)} messages"
    return None


def trial(warren, archive, work):
    with tarfile.open(archive) as packed:
        packed.extractall(work)   # our own files: no filter, which Python before 3.11.4 does not have
    folder = os.path.join(work, "data")
    for life in ("first", "second"):
        broker = server(warren, folder, os.path.join(work, "log"))
        broker.start()
        try:
            connection = pika.BlockingConnection(pika.URLParameters(broker.url))
            problems = [look(connection.channel(), queue, bodies) for queue, bodies in expected().items()]
            connection.close()
        finally:
            broker.stop() if life == "first" else broker.kill()
        for problem in filter(None, problems):
            raise Failed(f"{life} life: {problem}\n{broker.log_tail()}")
    subprocess.run([warren, "diag", folder, "--verify"], check=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warren", required=True)
    parser.add_argument("--make", metavar="NAME")
    options = parser.parse_args()
    if options.make:
        make(options.warren, options.make)
        return 0
    failed = 0
    for archive in sorted(glob.glob(os.path.join(FOLDERS, "*.tar.xz"))):
        name = os.path.basename(archive).removesuffix(".tar.xz")
        with tempfile.TemporaryDirectory() as work:
            try:
                trial(options.warren, archive, work)
                print(f"ok    {name}: all messages are there")
            except (Failed, subprocess.CalledProcessError) as problem:
                print(f"FAIL  {name}: {problem}")
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
