#!/usr/bin/env python3
"""Figures of streams, beside RabbitMQ where that is asked for. Each line of the result is one figure with its unit.

    WARREN_BIN=target/release/warren testing/bench/streams.py [--peer HOST_STREAM_PORT:AMQP_PORT:PID] [--seconds 20] [--backlog-gb 20]
        [--streams 10000] [--consumers 10000] [--only protocol,perftest,...] [--json FILE]

CPU is that of the broker's process, user and system, from /proc. Figures on a machine with few processors move by a tenth.
PERF_TEST is the command of RabbitMQ's PerfTest, STREAM_PERF_TEST that of stream-perf-test. A part that cannot be measured says why and the others go on.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "testing" / "streamproto"), str(ROOT / "testing" / "crash")]

import warren  # noqa: E402
from frames import Client, CREATE, NEXT, RESOLVE_OFFSET, STREAM_STATS, at_time, mapping, message, text  # noqa: E402

BINARY = os.environ.get("WARREN_BIN", "warren")
PERF_TEST = shlex.split(os.environ.get("PERF_TEST", ""))
STREAM_PERF_TEST = shlex.split(os.environ.get("STREAM_PERF_TEST", ""))
TICKS = os.sysconf("SC_CLK_TCK")
CONFIG = """
prometheus.tcp.listener = none
stream.listeners.tcp.default = 127.0.0.1:{stream}
stream.advertised_host = 127.0.0.1
warren.durability = {durability}
"""


def cpu_us(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1_000_000 / TICKS


def rss_bytes(pid, what="VmRSS"):
    return int(re.search(rf"^{what}:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1]) * 1024


class Broker:
    """Something to measure."""

    def __init__(self, name, stream_port, amqp, pid, process=None):
        self.name, self.port, self.amqp, self.pid, self.process = name, stream_port, amqp, pid, process

    @property
    def uri(self):
        return f"rabbitmq-stream://guest:guest@127.0.0.1:{self.port}"


@contextlib.contextmanager
def ours(durability, ports):
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DATA")) as folder:
        process = warren.Warren(BINARY, pathlib.Path(folder), CONFIG.format(stream=ports, durability=durability))
        process.start()
        try:
            yield Broker(f"warren {durability}", ports, process.url, process.child.pid, process)
        finally:
            process.stop()


class Results:
    """A measurement, told at once."""

    def __init__(self):
        self.lines = []

    def add(self, part, broker, figure, value, unit):
        self.lines.append({"part": part, "broker": broker, "figure": figure, "value": value, "unit": unit})
        print(f"{part:12} {broker:14} {figure:52} {value:>14,.3f} {unit}", flush=True)


def perf(broker, *options, timeout_s=600):
    """A run of the load generator; what it says of itself."""
    command = [BINARY, "perf", "--stream", "-u", broker.uri, "--pid", str(broker.pid), "--json", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}: {done.stderr[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def protocol(results, broker, given):
    """One publisher, one consumer, both, by entries and by batches in entries."""
    for what, options in [("entries", ("-b", 100)), ("batches of 10", ("-b", 100, "--sub-entry-size", 10)),
                          ("batches of 100", ("-b", 20, "--sub-entry-size", 100))]:
        rest = (*options, "-z", given.seconds, "--streams", "bench-" + what.replace(" ", "-"))
        said = perf(broker, "-x", 1, "-y", 0, "--keep", *rest)
        results.add("protocol", broker.name, f"published, {what}", said["confirmed_per_s"], "msg/s")
        results.add("protocol", broker.name, f"published, {what}, CPU", said["broker_cpu_us_per_message"], "us/msg")
        filled = said["confirmed"]
        said = perf(broker, "-x", 0, "-y", 1, "-o", "first", "--predeclared", "--keep", "--cmessages", filled, "--initial-credits", 50, *rest)
        results.add("protocol", broker.name, f"consumed from the first, {what}", said["consumed_per_s"], "msg/s")
        results.add("protocol", broker.name, f"consumed from the first, {what}, CPU", said["broker_cpu_us_per_message"], "us/msg")
        Client(broker.port).delete("bench-" + what.replace(" ", "-"))
        said = perf(broker, "-x", 1, "-y", 1, *rest)
        results.add("protocol", broker.name, f"published and consumed, {what}", said["consumed_per_s"], "msg/s")
        results.add("protocol", broker.name, f"published and consumed, {what}, CPU", said["broker_cpu_us_per_message"], "us/msg")


def perf_test(broker, *options):
    """A run of PerfTest: averages of what was sent and received per second, and the broker's CPU seconds meanwhile."""
    if not PERF_TEST:
        raise RuntimeError("PERF_TEST is not set")
    before = cpu_us(broker.pid)
    done = subprocess.run([*PERF_TEST, "--uri", broker.amqp, *map(str, options)], capture_output=True, text=True, timeout=900)
    used = cpu_us(broker.pid) - before
    rates = {}
    for which, rate in re.findall(r"(sending|receiving) rate avg: (\d+)", done.stdout):
        rates[which] = int(rate)
    if not rates:
        raise RuntimeError(f"PerfTest said nothing: {(done.stdout + done.stderr)[-500:]}")
    return rates, used


def perftest(results, broker, given):
    """PerfTest with 2,000 unconfirmed messages, then four consumers of what it wrote."""
    queue = ("--stream-queue", "-u", "bench-perftest", "-ad", "false")
    rates, used = perf_test(broker, *queue, "-x", 1, "-y", 0, "-c", 2000, "-f", "persistent", "-s", 12, "-z", given.seconds)
    results.add("perftest", broker.name, "-x1 -y0 -c 2000 to a stream", rates["sending"], "msg/s")
    results.add("perftest", broker.name, "-x1 -y0 -c 2000 to a stream, CPU", used / (rates["sending"] * given.seconds), "us/msg")
    reads = (*queue, "-x", 0, "-y", 4, "-sco", "first", "-q", 2000, "-A", 500, "-z", given.seconds)
    rates, used = perf_test(broker, *reads)
    results.add("perftest", broker.name, "4 consumers of AMQP 0-9-1", rates["receiving"], "msg/s")
    results.add("perftest", broker.name, "4 consumers of AMQP 0-9-1, CPU", used / max(1, rates["receiving"] * given.seconds), "us/msg")


def streamperftest(results, broker, given):
    """RabbitMQ's stream-perf-test: publishes, then both at once, as it comes and with 100 messages in an entry."""
    if not STREAM_PERF_TEST:
        raise RuntimeError("STREAM_PERF_TEST is not set")
    for what, options in [("entries", ()), ("batches of 100", ("--sub-entry-size", 100))]:
        for consumers in (0, 1):
            command = [*STREAM_PERF_TEST, "--uris", broker.uri, "--streams", "bench-spt", "--delete-streams", "--producers", 1,
                       "--consumers", consumers, "--time", given.seconds, *options]
            before = cpu_us(broker.pid)
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
            used = cpu_us(broker.pid) - before
            said = re.search(r"Summary: published (\d+) msg/s, confirmed (\d+) msg/s(?:, consumed (\d+) msg/s)?", done.stdout)
            if not said:
                raise RuntimeError(f"stream-perf-test said nothing: {(done.stdout + done.stderr)[-500:]}")
            rates, which = [int(rate or 0) for rate in said.groups()], f"{what}, {consumers} consumers"
            results.add("spt", broker.name, f"confirmed, {which}", rates[1], "msg/s")
            if consumers:
                results.add("spt", broker.name, f"consumed, {which}", rates[2], "msg/s")
            results.add("spt", broker.name, f"CPU, {which}", used / max(1, rates[1] * given.seconds), "us/msg")


def backlog(results, broker, given):
    """Memory after a large backlog, and look-ups by timestamp in it."""
    wanted, size = int(given.backlog_gb * 1e9), 10_000
    done, began = 0, time.monotonic()
    while done < wanted:
        share = perf(broker, "-x", 1, "-y", 0, "--keep", "--streams", "bench-backlog", "-s", size, "-b", 50, "-z", 10,
                     "--max-length-bytes", int(1e12))
        done += share["confirmed"] * size
        if not share["confirmed"]:
            raise RuntimeError("nothing is confirmed")
    results.add("backlog", broker.name, "written", done / 1e9, "GB")
    results.add("backlog", broker.name, "written", done / 1e6 / (time.monotonic() - began), "MB/s")
    results.add("backlog", broker.name, "resident", rss_bytes(broker.pid) / 1048576, "MiB")
    results.add("backlog", broker.name, "resident at most", rss_bytes(broker.pid, "VmHWM") / 1048576, "MiB")
    client = Client(broker.port)
    ages, now = [], time.time()
    took = time.monotonic() - began
    for nth in range(50):
        at = int((now - took * (nth + 1) / 51) * 1000)
        start = time.perf_counter()
        code, _ = client.request(RESOLVE_OFFSET, text("bench-backlog") + at_time(at) + mapping())
        ages.append((time.perf_counter() - start) * 1000)
        if code != 1:
            results.add("backlog", broker.name, "look-up by timestamp: code", code, "")
            break
    ages.sort()
    results.add("backlog", broker.name, "look-up by timestamp, median", ages[len(ages) // 2], "ms")
    results.add("backlog", broker.name, "look-up by timestamp, slowest of 50", ages[-1], "ms")
    if broker.process:
        # A look-up opens a reader: what readers cost must go with them.
        results.add("backlog", broker.name, "resident after the look-ups", rss_bytes(broker.pid) / 1048576, "MiB")
    client.delete("bench-backlog")


def start(results, broker, given):
    """Creation of many streams with a message each, and the start with them. Only what can be restarted."""
    if not broker.process:
        return
    began, client = time.monotonic(), Client(broker.port)
    for nth in range(given.streams):
        code = client.code(CREATE, text(f"start-{nth}") + mapping())
        if code != 1:
            raise RuntimeError(f"a stream is not created: {code}")
    results.add("start", broker.name, f"creation of {given.streams} streams, each", (time.monotonic() - began) * 1000 / given.streams, "ms")
    results.add("start", broker.name, "resident with them", rss_bytes(broker.pid) / 1048576, "MiB")
    for how in ("empty, clean end", "one message each, clean end", "one message each, kill"):
        if how.startswith("one message each, clean"):
            fill(broker, given.streams)
        (broker.process.kill if how.endswith("kill") else broker.process.stop)()
        began = time.monotonic()
        broker.process.start()
        broker.pid = broker.process.child.pid
        results.add("start", broker.name, f"start with {given.streams} streams, {how}", time.monotonic() - began, "s")
        if how.endswith("kill"):
            client = Client(broker.port)
            assert client.request(STREAM_STATS, text(f"start-{given.streams - 1}"))[0] == 1


def fill(broker, count):
    client = Client(broker.port)
    for nth in range(count):
        assert client.declare(f"start-{nth}") == 1
        client.publish([message(b"one")])
        client.confirmed(1)
        client.code(6, b"\1")


def idle(results, broker, given):
    """Bytes of a consumer that waits at the end of its stream."""
    first = Client(broker.port)
    first.create("bench-idle")
    first.declare("bench-idle")
    first.publish([message(b"one")])
    first.confirmed(1)
    per_connection = 250
    clients = [Client(broker.port) for _ in range(-(-given.consumers // per_connection))]
    time.sleep(2)
    before, count = rss_bytes(broker.pid), 0
    for client in clients:
        for subscription in range(min(per_connection, given.consumers - count)):
            assert client.subscribe("bench-idle", subscription, NEXT) == 1
            count += 1
    time.sleep(2)
    results.add("idle", broker.name, f"each of {count} idle consumers", (rss_bytes(broker.pid) - before) / count, "B")
    began = cpu_us(broker.pid)
    first.publish([message(b"two")], first=1)
    first.confirmed(1)
    for client in clients:
        for _ in range(per_connection):
            client.receive()
    results.add("idle", broker.name, "one message to all of them, CPU of each delivery", (cpu_us(broker.pid) - began) / count, "us")
    for client in clients:
        client.close()
    first.delete("bench-idle")


PARTS = {"protocol": protocol, "perftest": perftest, "streamperftest": streamperftest, "idle": idle, "start": start, "backlog": backlog}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--peer", help="STREAM_PORT:AMQP_PORT:PID of a RabbitMQ that runs")
    options.add_argument("--port", type=int, default=21210)
    options.add_argument("--seconds", type=int, default=20)
    options.add_argument("--backlog-gb", type=float, default=20)
    options.add_argument("--streams", type=int, default=10_000)
    options.add_argument("--consumers", type=int, default=10_000)
    options.add_argument("--durability", default="os,fsync")
    options.add_argument("--only", default=",".join(PARTS))
    options.add_argument("--json", type=pathlib.Path)
    given = options.parse_args()
    results = Results()

    def measure(broker, parts):
        for part in parts:
            try:
                PARTS[part](results, broker, given)
            except Exception as error:  # The other parts go on.
                traceback.print_exc()
                print(f"{part:12} {broker.name:14} not measured: {error}", flush=True)

    wanted = given.only.split(",")
    for durability in given.durability.split(","):
        # A figure that does not depend on syncs is measured once.
        parts = wanted if durability == "os" or "," not in given.durability else [it for it in wanted if it in ("protocol", "perftest", "streamperftest")]
        with ours(durability, given.port) as broker:
            measure(broker, [part for part in parts if part != "start"])
        if "start" in parts:
            with ours(durability, given.port) as broker:
                measure(broker, ["start"])
    if given.peer:
        stream, amqp, pid = given.peer.split(":")
        peer = Broker("rabbitmq", int(stream), f"amqp://guest:guest@127.0.0.1:{amqp}/%2F", int(pid))
        measure(peer, [part for part in wanted if part != "start"])
    if given.json:
        given.json.write_text(json.dumps(results.lines, indent=1))


if __name__ == "__main__":
    main()
