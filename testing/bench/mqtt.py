#!/usr/bin/env python3
"""MQTT beside other brokers: memory of idle clients, fan-out, durable sessions, reconnects, and changes of subscriptions.

    mqtt.py [--seconds 10] [--connections 10000] [--subscribers 10000] [--port 21210] [--only idle,fanout,...] [--brokers warren,mosquitto,rabbitmq]

WARREN_BIN is the binary; LOAD_BIN is the one that makes the load, if that is another. PEER is a command that runs RabbitMQ with its plugin
(see run.sh), MOSQUITTO the server of that name; without them there is none. CPU is that of the broker's process, user and system.
Each broker is fresh for all parts, but for RabbitMQ. A part that cannot be measured says why and the others go on.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from amqp10 import running
from brokers import Absent, Rabbitmq

BINARY = os.environ.get("WARREN_BIN", "warren")
LOAD = os.environ.get("LOAD_BIN", BINARY)
MOSQUITTO = os.environ.get("MOSQUITTO") or shutil.which("mosquitto")
RABBITMQ_PORT = 1885
WARREN_CONFIG = """
prometheus.tcp.listener = none
mqtt.listeners.tcp.default = 127.0.0.1:{port}
warren.durability = {durability}
"""
MOSQUITTO_CONFIG = """
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_queued_messages 0
max_inflight_messages 0
"""


class Broker:
    """Something to measure."""

    def __init__(self, port, pid):
        self.uri, self.pid = f"mqtt://guest:guest@127.0.0.1:{port}", pid

    def anonymous_kib(self):
        """Memory that is its own: no code, no pages of files."""
        return int(re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())[1])

    def command(self, seconds, *words):
        return [LOAD, "perf", "--mqtt", "--uri", self.uri, "--pid", str(self.pid), "--json", "--time", str(seconds), *map(str, words)]

    def load(self, seconds, *words):
        """Figures of a run of the load generator."""
        command = self.command(seconds, *words)
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 300, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)


def idle(broker, given):
    """Memory of a client with one subscription that waits."""
    before = broker.anonymous_kib()
    with subprocess.Popen(broker.command(2, "--connections", given.connections), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as load:
        said = load.stderr.readline()
        if "have connected" not in said:
            raise RuntimeError(said.strip() + load.stderr.read()[-300:])
        yield "an idle client, bytes", (broker.anonymous_kib() - before) * 1024 / given.connections
        load.stderr.read()


def fanout(broker, given):
    """Each message to all subscribers, QoS 0, as many as a rate of 200,000 deliveries a second makes."""
    rate = max(1, 200_000 // given.subscribers)
    said = broker.load(given.seconds, "--consumers", given.subscribers, "--rate", rate)
    yield f"fan-out to {given.subscribers}, deliveries/s", said["consumed_per_s"]
    yield f"fan-out to {given.subscribers}, us CPU/delivery", said["broker_cpu_us"] / max(1, said["consumed"])


def qos1(broker, given):
    """Through a session that outlives its connection, with a subscriber and without one."""
    session = ("--qos", 1, "--persistent", "--keep", "--topics", "bench/qos1", "--id", "bench-qos1")
    said = broker.load(given.seconds, *session)
    yield "QoS 1 to a subscriber, msg/s", said["consumed_per_s"]
    yield "QoS 1 to a subscriber, us CPU/msg", said["broker_cpu_us"] / max(1, said["consumed"])
    said = broker.load(given.seconds, *session, "--consumers", 0)
    yield "QoS 1 to a session that is away, msg/s", said["confirmed_per_s"]
    yield "QoS 1 to a session that is away, us CPU/msg", said["broker_cpu_us"] / max(1, said["confirmed"])
    broker.load(1, *[word for word in session if word != "--keep"], "--producers", 0)


def reconnects(broker, given):
    """CONNECT, SUBSCRIBE, SUBACK, DISCONNECT, by 50 clients at once."""
    said = broker.load(given.seconds, "--reconnects", 50)
    yield "reconnects/s", said["confirmed_per_s"]
    yield "us CPU/reconnect", said["broker_cpu_us"] / max(1, said["confirmed"])


def churn(broker, given):
    """Topic filters that are subscribed to and left again, 100 in a SUBSCRIBE; each counts twice."""
    for name, words in [("QoS 0", ()), ("durable", ("--qos", 1, "--persistent"))]:
        said = broker.load(given.seconds, "--churn", 4, *words)
        yield f"changes of subscriptions, {name}, /s", 2 * said["confirmed_per_s"]
        yield f"changes of subscriptions, {name}, us CPU each", said["broker_cpu_us"] / max(1, 2 * said["confirmed"])


PARTS = {part.__name__: part for part in (idle, fanout, qos1, reconnects, churn)}


@contextlib.contextmanager
def warren(port, durability):
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DATA")) as folder:
        config = Path(folder) / "warren.conf"
        config.write_text(WARREN_CONFIG.format(port=port, durability=durability))
        command = [BINARY, "server", "--listen", f"127.0.0.1:{port + 1}", "--management-listen", "none", "--config", str(config)]
        with running([*command, "--data-dir", f"{folder}/data", "--log", "error"], port, folder) as pid:
            yield Broker(port, pid)


@contextlib.contextmanager
def mosquitto(port):
    if not MOSQUITTO:
        raise Absent("no mosquitto: set MOSQUITTO")
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "mosquitto.conf"
        config.write_text(MOSQUITTO_CONFIG.format(port=port))
        with running([MOSQUITTO, "-c", str(config)], port, folder) as pid:
            yield Broker(port, pid)


@contextlib.contextmanager
def rabbitmq():
    peer = Rabbitmq()
    try:
        with peer(None, None) as it:
            yield Broker(RABBITMQ_PORT, it.pid)
    finally:
        peer.stop()


def measure(name, broker, given, figures):
    for part in given.only:
        try:
            for figure, value in PARTS[part](broker, given):
                figures.setdefault(figure, {})[name] = value
                print(f"{name}: {figure}: {value:,.2f}", file=sys.stderr, flush=True)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"{name}: {part} is not measured: {error}", file=sys.stderr, flush=True)
        time.sleep(given.pause)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--pause", type=float, default=3, help="seconds between two parts")
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--subscribers", type=int, default=10_000)
    parser.add_argument("--port", type=int, default=21210, help="this port and the next one are used")
    parser.add_argument("--durability", default="os", help="of Warren: fsync, or os as RabbitMQ's classic queues have it")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--brokers", type=lambda text: text.split(","), default=["warren", "mosquitto", "rabbitmq"])
    given = parser.parse_args()
    starts = {"warren": lambda: warren(given.port, given.durability), "mosquitto": lambda: mosquitto(given.port), "rabbitmq": rabbitmq}
    figures = {}
    for name in given.brokers:
        try:
            with starts[name]() as broker:
                measure(name, broker, given, figures)
        except Absent as absent:
            print(f"{name}: {absent}", file=sys.stderr)
    print(f"| figure | {' | '.join(given.brokers)} |\n|---|{'---|' * len(given.brokers)}")
    for figure, values in figures.items():
        cells = [f"{values[name]:,.2f}" if name in values else "" for name in given.brokers]
        print(f"| {figure} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
