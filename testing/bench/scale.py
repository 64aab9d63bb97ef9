#!/usr/bin/env python3
"""Queues at scale: very many of them, and very long ones. `make bench` runs it after the workloads; alone: scale.py [TEST...]

    SCALE     factor for all counts (0.1; 1 is 100,000 queues and 10,000,000 messages, and takes 12 GB of disk)
    WARREN, PEER, BROKERS   as for run.sh

Every test starts a broker on an empty folder. Where RabbitMQ can do a test it is done there too, on objects whose names begin with
`bench`, which are deleted at the end; counts of objects and messages are a tenth there, because it takes too long otherwise.
Results: a table, and bench-results/scale-*.json, from which plot_scale.py makes the plots of docs/storage.md.
"""

import contextlib
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import amqp
import brokers
from bench import machine, process_use, say, words
from brokers import ROOT, Absent, Missing

SCALE = float(os.environ.get("SCALE", "0.1"))
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Node:
    """A broker under test: Warren, which can be restarted, or RabbitMQ, which cannot."""

    def __init__(self, name, tools):
        self.name, self.tools, self.process, self.data = name, tools, None, None
        self.uri, self.pid = None, None

    @property
    def is_ours(self):
        return self.name == "warren"

    def share(self, count):
        """So many of something as this broker is to have."""
        return max(int(count * SCALE * (1 if self.is_ours else 0.1)), 10)

    def start(self):
        """Starts Warren on its folder; returns the seconds until it accepts clients."""
        began = time.monotonic()
        log = (ROOT / "bench-results" / "scale.log").open("a")
        command = [*self.tools.warren, "server", "--listen", "127.0.0.1:0", "--data-dir", str(self.data), "--log", "error"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        if "amqp=" not in line:
            raise Absent("warren does not start; see bench-results/scale.log")
        address = re.search(r"amqp=(\S+)", line)[1]
        self.uri, self.pid = f"amqp://{address}", self.process.pid
        return time.monotonic() - began

    def stop(self, how):
        """Ends Warren; returns the seconds it took."""
        began = time.monotonic()
        self.process.send_signal(how)
        self.process.wait()
        return time.monotonic() - began

    def ctl(self, *words):
        """Output of the command-line tool, and the seconds it took."""
        if self.is_ours:
            command = [*self.tools.warren, "ctl", "--data-dir", str(self.data), *words]
        else:
            command = [brokers.peer_command(), "ctl", brokers.PEER_NAME, *words]
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Missing(f"{words[0]} failed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
        return done.stdout, time.monotonic() - began

    def rss(self):
        """Resident bytes."""
        return process_use(self.pid)[1] * 1024

    def use(self):
        """CPU seconds so far."""
        return process_use(self.pid)[0]

    def perf(self, *arguments, timeout=1800):
        """Runs `warren perf`: its JSON, and its lines as dicts of rate and p99 (microseconds) a second."""
        command = [*self.tools.load, "perf", "-h", self.uri, *map(str, arguments), "--watch-pid", str(self.pid), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        if done.returncode != 0:
            raise Missing(f"load failed: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
        lines = (done.stdout + done.stderr).splitlines()
        series = [seconds for seconds in map(second, lines) if seconds]
        return json.loads(next(line for line in lines if line.startswith("{"))), series


def second(line):
    """One line of progress, understood."""
    found = re.search(r"time ([\d.]+) s", line)
    if not found:
        return None
    out = {"at": float(found[1])}
    for what in ("sent", "received"):
        rate = re.search(rf"{what}: (\d+) msg/s", line)
        out[what] = int(rate[1]) if rate else 0
    p99 = re.search(r"confirm latency: [\d.]+/[\d.]+/[\d.]+/[\d.]+/([\d.]+)", line)
    out["confirm_p99_us"] = float(p99[1]) if p99 else None
    return out


@contextlib.contextmanager
def fresh(name, tools):
    """A broker with nothing in it."""
    node = Node(name, tools)
    if node.is_ours:
        node.data = ROOT / ".cache" / "scale-data"
        if node.data.parent.is_symlink():
            node.data = ROOT / "bench-results" / "scale-data"
        shutil.rmtree(node.data, ignore_errors=True)
        node.data.parent.mkdir(exist_ok=True)
        node.start()
        try:
            yield node
        finally:
            if node.process.poll() is None:
                node.process.kill()
                node.process.wait()
            shutil.rmtree(node.data, ignore_errors=True)
        return
    with RABBITMQ(tools, None) as running:
        node.uri, node.pid = running.uri, running.pid
        yield node


RABBITMQ = brokers.Rabbitmq()


class Probe:
    """Publishes and gets one message at a time on a queue of its own: how long others wait while something large goes on."""

    def __init__(self, uri):
        self.uri, self.waits, self.ended = uri, [], threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def run(self):
        with amqp.Connection(self.uri) as connection:
            connection.call(amqp.declare("bench-probe"), 50, 11)
            connection.call(amqp.method(85, 10, b"\0"), 85, 11)
            message = amqp.publish("bench-probe", b"probe")
            get = amqp.method(60, 70, b"\0\0" + amqp.short("bench-probe") + b"\x01")
            while not self.ended.is_set():
                began = time.monotonic()
                connection.call(message, 60, 80)
                connection.call(get, 60, 71)
                connection.next(), connection.next()
                self.waits.append(time.monotonic() - began)
                time.sleep(0.002)
            connection.call(amqp.delete("bench-probe"), 50, 41)

    def figures(self):
        """Milliseconds."""
        waits = sorted(self.waits) or [0]
        at = lambda share: round(waits[min(int(len(waits) * share), len(waits) - 1)] * 1000, 2)
        return {"probe_p50_ms": at(0.5), "probe_p99_ms": at(0.99), "probe_max_ms": at(1)}


def objects(node):
    """Durable queues with a binding each: declared, listed, idle, restarted."""
    count = node.share(1_000_000 if os.environ.get("MILLION") else 100_000)
    names = [f"bench-q-{number:07}" for number in range(count)]
    before = node.rss()
    out = {"queues": count}
    with amqp.Connection(node.uri) as connection:
        began = time.monotonic()
        connection.pipeline(amqp.declare(name) for name in names)
        declared = time.monotonic()
        out["declared_per_s"] = count / (declared - began)
        out["bytes_per_queue"] = (node.rss() - before) / count
        connection.pipeline(amqp.bind(name, "amq.direct", name) for name in names)
        out["bound_per_s"] = count / (time.monotonic() - declared)
    text, out["list_queues_s"] = node.ctl("list_queues", "name", "messages")
    if text.count("bench-q-") != count:
        raise Missing("list_queues does not list all queues")
    time.sleep(1)
    cpu, began = node.use(), time.monotonic()
    time.sleep(10)
    out["idle_core_percent"] = 100 * (node.use() - cpu) / (time.monotonic() - began)
    if node.is_ours:
        out["stop_s"] = node.stop(signal.SIGTERM)
        out["restart_clean_s"] = node.start()
        node.stop(signal.SIGKILL)
        out["restart_after_kill_s"] = node.start()
        out["rss_mib_after_restart"] = node.rss() / 2**20
        if node.ctl("list_queues", "name")[0].count("bench-q-") != count:
            raise Missing("queues are missing after the restart")
    with amqp.Connection(node.uri) as connection:
        connection.call(amqp.publish(names[-1], b"x") + amqp.method(60, 70, b"\0\0" + amqp.short(names[-1]) + b"\x01"), 60, 71)
        connection.next(), connection.next()
        connection.pipeline(map(amqp.delete, names))
    return out


def backlog(node):
    """One queue fills with messages of 1 KB and is drained; persistent, confirms. Rates of its tenths should be alike, and so should
    what a calm publisher waits for its confirms in front of the empty and of the long queue."""
    count = node.share(10_000_000)
    queue = ("-u", "bench-backlog", "-ad", "false", "-s", 1000)
    calm = lambda *more: confirms(node.perf(*queue, "-c", 100, "-f", "persistent", "-y", 0, "-r", 1000, "-z", 10, *more)[0])
    baseline, _ = node.perf(*queue, "-c", 2000, "-f", "persistent", "-q", 1000, "-A", 200, "-z", 10)
    calm_before = calm()
    disk_before, rss_before = disk(node), node.rss()
    with amqp.Connection(node.uri) as connection:
        connection.call(amqp.declare("bench-backlog"), 50, 11)
    filled, series = node.perf(*queue, "-c", 2000, "-f", "persistent", "-y", 0, "-C", count, "-p")
    out = {"messages": count, "empty_queue_per_s": baseline["received_per_s"], "fill_per_s": filled["sent_per_s"]}
    out.update(tenths(series, count))
    out["rss_mib"], out["rss_max_mib"] = node.rss() / 2**20, filled["broker"]["rss_max_kib"] / 1024
    out["bytes_per_message"] = (node.rss() - rss_before) / count
    out["disk_bytes_per_message"] = (disk(node) - disk_before) / count
    out.update({f"calm_empty_{name}": ms for name, ms in calm_before.items()})
    out.update({f"calm_long_{name}": ms for name, ms in calm("-p").items()})
    if node.is_ours:
        node.stop(signal.SIGTERM)
        out["restart_clean_s"] = node.start()
        node.stop(signal.SIGKILL)
        out["restart_after_kill_s"] = node.start()
    drained, series = node.perf(*queue, "-x", 0, "-q", 1000, "-A", 200, "-D", count, "-p")
    out["drain_per_s"] = drained["received_per_s"]
    out["drain_share"] = drained["received_per_s"] / baseline["received_per_s"]
    with amqp.Connection(node.uri) as connection:
        connection.call(amqp.delete("bench-backlog"), 50, 41)
    return out


def tenths(series, count):
    """Rate and worst p99 of each tenth of a run."""
    parts, sent = [[] for _ in range(10)], 0
    for line in series:
        parts[min(int(10 * sent / count), 9)].append(line)
        sent += line["sent"]
    rates = [sum(line["sent"] for line in part) / len(part) for part in parts if part]
    p99 = [max(line["confirm_p99_us"] or 0 for line in part) / 1000 for part in parts if part]
    return {"fill_tenths_per_s": [round(rate) for rate in rates], "fill_tenths_p99_ms": [round(one, 1) for one in p99]}


def confirms(load):
    """What a publisher waited for its confirms, milliseconds."""
    latency = load["confirm_latency_us"] or {}
    return {f"{name}_ms": latency.get(key, 0) / 1000 for name, key in (("p50", "p50"), ("p99", "p99"), ("worst", "max"))}


def disk(node):
    """Bytes in the data folder."""
    if not node.is_ours:
        return 0
    return sum(file.stat().st_blocks * 512 for file in Path(node.data).rglob("*") if file.is_file())


def fifty(node):
    """Fifty consumers join a long queue at once, while somebody publishes to it with confirms."""
    return joined(node, {})


def fifty_single(node):
    """The same with a single active consumer."""
    return joined(node, {"x_single_active_consumer": True})


def joined(node, arguments):
    count = node.share(2_000_000)
    with amqp.Connection(node.uri) as connection:
        connection.call(amqp.declare("bench-joined", **arguments), 50, 11)
    queue = ("-u", "bench-joined", "-ad", "false", "-s", 1000, "-p")
    node.perf(*queue, "-c", 2000, "-y", 0, "-C", count)
    with Probe(node.uri) as probe:
        drained, series = node.perf(*queue, "-x", 1, "-r", 1000, "-c", 100, "-y", 50, "-q", 100, "-A", 20, "-z", 10)
    with amqp.Connection(node.uri) as connection:
        connection.call(amqp.delete("bench-joined"), 50, 41)
    rate = max(line["received"] for line in series)
    waits = {f"publisher_{name}": ms for name, ms in confirms(drained).items()}
    return {"messages": count, "drain_per_s": rate, **waits, **probe.figures()}


def expiry(node):
    """All messages of a long queue expire at once, while somebody else is served."""
    return dying(node, {})


def dead_letters(node):
    """The same, and they go to another queue."""
    return dying(node, {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "bench-dead"})


def dying(node, arguments):
    count = node.share(1_000_000)
    ttl_ms = 15_000 if node.is_ours else 60_000
    with amqp.Connection(node.uri) as connection:
        connection.call(amqp.declare("bench-dead"), 50, 11)
        connection.call(amqp.declare("bench-dying", x_message_ttl=ttl_ms, **arguments), 50, 11)
        node.perf("-u", "bench-dying", "-ad", "false", "-p", "-s", 100, "-c", 2000, "-y", 0, "-C", count, "-f", "persistent")
        filled = time.monotonic()
        depth = count
        with Probe(node.uri) as probe:
            while depth > 0 and time.monotonic() - filled < 300:
                time.sleep(0.02)
                depth = depth_of(connection, "bench-dying")
                if depth == count:
                    probe.waits.clear()
                    began, used = time.monotonic(), node.use()
        out = {"messages": count, "expired_per_s": count / (time.monotonic() - began), **probe.figures()}
        if arguments:
            deadline = time.monotonic() + 60
            while depth_of(connection, "bench-dead") < count and time.monotonic() < deadline:
                time.sleep(0.05)
            if depth_of(connection, "bench-dead") != count:
                raise Missing("dead letters are missing")
        # What the probe asks meanwhile is in it; ticks of the clock are 10 ms.
        out["cpu_us_per_message"] = (node.use() - used) * 1e6 / count
        connection.pipeline(map(amqp.delete, ("bench-dying", "bench-dead")))
    return out


def purge(node):
    """A long queue is purged while somebody else is served."""
    return shrinking(node, lambda connection: connection.call(amqp.method(50, 30, b"\0\0" + amqp.short("bench-shrinks") + b"\0"), 50, 31))


def shorten(node):
    """A policy makes a long queue a short one, and what is dropped goes to another queue."""
    policy = '{"max-length":0,"dead-letter-exchange":"","dead-letter-routing-key":"bench-dead"}'
    return shrinking(node, lambda _: node.ctl("set_policy", "--apply-to", "queues", "bench-short", "^bench-shrinks$", policy))


def delete(node):
    """A long queue is deleted."""
    def act(connection):
        connection.call(amqp.delete("bench-shrinks"), 50, 41)
        connection.call(amqp.declare("bench-shrinks"), 50, 11)
    return shrinking(node, act)


def shrinking(node, act):
    """A queue becomes empty at once."""
    count = node.share(1_000_000)
    with amqp.Connection(node.uri) as connection:
        connection.pipeline(map(amqp.declare, ("bench-shrinks", "bench-dead")))
        node.perf("-u", "bench-shrinks", "-ad", "false", "-p", "-s", 100, "-c", 2000, "-y", 0, "-C", count, "-f", "persistent")
        with Probe(node.uri) as probe:
            time.sleep(0.2)
            probe.waits.clear()
            began = time.monotonic()
            act(connection)
            while depth_of(connection, "bench-shrinks") > 0 and time.monotonic() - began < 300:
                time.sleep(0.02)
            seconds = time.monotonic() - began
        if "bench-short" in node.ctl("list_policies")[0]:
            node.ctl("clear_policy", "bench-short")
        connection.pipeline(map(amqp.delete, ("bench-shrinks", "bench-dead")))
    return {"messages": count, "empty_s": seconds, **probe.figures()}


def depth_of(connection, queue):
    """Ready messages."""
    answer = connection.call(amqp.method(50, 10, b"\0\0" + amqp.short(queue) + b"\x01" + amqp.table()), 50, 11)
    return int.from_bytes(answer[5 + answer[4]:9 + answer[4]], "big")


def requeue(node):
    """All deliveries of a consumer come back at once, and are delivered again in their order."""
    count = node.share(1_000_000)
    with amqp.Connection(node.uri) as connection:
        connection.call(amqp.declare("bench-requeue"), 50, 11)
        for first in range(0, count, 1000):
            connection.send(b"".join(amqp.publish("bench-requeue", b"%012d" % number) for number in range(first, min(first + 1000, count))))
        while depth_of(connection, "bench-requeue") < count:
            time.sleep(0.02)
        with amqp.Connection(node.uri) as consumer:
            consume(consumer)
            consumer.count(count, kind=3)
            consumer.call(amqp.method(60, 30, amqp.short("c") + b"\0"), 60, 31)
            with Probe(node.uri) as probe:
                began = time.monotonic()
                # basic.nack of the latest tag, multiple and requeue.
                consumer.send(amqp.method(60, 120, count.to_bytes(8, "big") + b"\x03"))
                while depth_of(connection, "bench-requeue") < count:
                    time.sleep(0.002)
                seconds = time.monotonic() - began
        with amqp.Connection(node.uri) as consumer:
            consume(consumer)
            bodies = []
            while len(bodies) < min(count, 20_000):
                kind, payload = consumer.next()
                if kind == 3:
                    bodies.append(payload)
        if bodies != sorted(bodies):
            raise Missing("the order is lost")
        connection.call(amqp.delete("bench-requeue"), 50, 41)
    return {"messages": count, "all_back_s": seconds, **probe.figures()}


def consume(connection):
    connection.send(amqp.method(60, 20, b"\0\0" + amqp.short("bench-requeue") + amqp.short("c") + b"\0" + amqp.table()))
    connection.expect(60, 21)


def flood(node):
    """A hundred publishers at full speed, nobody consumes: memory must stay below the watermark."""
    seconds = 20
    flooded, _ = node.perf("-qp", "bench-f-%d", "-qpf", 1, "-qpt", 100, "-x", 100, "-y", 0, "-s", 1000, "-z", seconds, "-e", "amq.direct")
    status = node.ctl("status")[0]
    watermark = re.search(r"Memory high watermark setting: .*computed to: ([\d.]+) gb", status)
    return {"sent_per_s": flooded["sent_per_s"], "rss_max_mib": flooded["broker"]["rss_max_kib"] / 1024,
            "watermark_mib": float(watermark[1]) * 1e9 / 2**20 if watermark else None}


def curves(node):
    """Memory and restart time against the number of queues, and of messages in one queue: what docs/storage.svg draws."""
    points = {"queues": [], "messages": []}
    for part in (0.01, 0.1, 0.3, 1):
        restarted_empty(node)
        empty, count = node.rss(), node.share(100_000 * part)
        with amqp.Connection(node.uri) as connection:
            connection.pipeline(amqp.declare(f"bench-q-{number:07}") for number in range(count))
        points["queues"].append(point(node, count, empty))
        restarted_empty(node)
        empty, count = node.rss(), node.share(3_000_000 * part)
        with amqp.Connection(node.uri) as connection:
            connection.call(amqp.declare("bench-backlog"), 50, 11)
        node.perf("-u", "bench-backlog", "-ad", "false", "-p", "-s", 1000, "-c", 2000, "-f", "persistent", "-y", 0, "-C", count)
        points["messages"].append(point(node, count, empty))
    return points


def restarted_empty(node):
    """Warren anew on an empty folder."""
    node.stop(signal.SIGKILL)
    shutil.rmtree(node.data, ignore_errors=True)
    node.start()


def point(node, count, empty):
    """What is there now: its number, resident bytes beyond those of an empty broker, seconds until clients are accepted after a kill."""
    rss = node.rss() - empty
    node.stop(signal.SIGKILL)
    return {"count": count, "rss_bytes": rss, "restart_s": node.start()}


TESTS = {"objects": objects, "backlog": backlog, "fifty": fifty, "fifty-single": fifty_single, "expiry": expiry,
         "dead-letters": dead_letters, "requeue": requeue, "purge": purge, "shorten": shorten, "delete": delete, "flood": flood, "curves": curves}
# What takes too long or leaves too much in a broker that is not ours.
OURS_ONLY = {"flood", "curves"}


def shown(value):
    if isinstance(value, list):
        return " ".join(f"{one:,}" if isinstance(one, (int, float)) else str(one) for one in value)
    return f"{value:,.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def main():
    wanted = [word for word in sys.argv[1:] if not word.startswith("-")] or list(TESTS)
    unknown = set(wanted) - set(TESTS)
    if unknown or "--list" in sys.argv:
        print("\n".join(f"{name:13} {test.__doc__.splitlines()[0]}" for name, test in TESTS.items()))
        raise SystemExit(f"no such test: {', '.join(sorted(unknown))}" if unknown else 0)
    tools = brokers.tools()
    (ROOT / "bench-results").mkdir(exist_ok=True)
    names = [name for name in (words("BROKERS") or ["warren", "rabbitmq"]) if name in ("warren", "rabbitmq")]
    results = {"machine": machine(), "scale": SCALE, "tests": {}}
    for test in wanted:
        say(f"{test}: {TESTS[test].__doc__}")
        for name in names if test not in OURS_ONLY else names[:1]:
            try:
                with fresh(name, tools) as node:
                    found = TESTS[test](node)
            except Missing as reason:
                say(f"  {name:9} skipped: {reason}")
                continue
            results["tests"].setdefault(test, {})[name] = found
            say("\n".join(f"  {name:9} {what:24} {shown(value)}" for what, value in found.items()))
    RABBITMQ.stop()
    stem = datetime.datetime.now().strftime("scale-%Y%m%d-%H%M%S.json")
    (ROOT / "bench-results" / stem).write_text(json.dumps(results, indent=1) + "\n")
    say(f"kept in bench-results/{stem}")


if __name__ == "__main__":
    main()
