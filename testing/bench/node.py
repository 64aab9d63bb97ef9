"""The broker that a test of scale.py measures, and who watches it meanwhile: how long others wait, how much it takes.

Refuses to know the tests. Everything about a RabbitMQ is asked through its control command and /proc, so it must run on this machine.
"""

import collections
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import amqp
import brokers
from bench import process_use
from brokers import ROOT, Absent, Missing

SCALE = float(os.environ.get("SCALE", "0.1"))
RABBITMQ = brokers.Rabbitmq()
# The largest body that tests send is 64 MiB.
CONFIGURATION = "max_message_size = 134217728\n"


class Node:
    """A broker under test: Warren, which can be restarted, or RabbitMQ, which cannot."""

    def __init__(self, name, tools):
        self.name, self.tools, self.process, self.data = name, tools, None, None
        self.uri, self.pid, self.configuration = None, None, CONFIGURATION

    @property
    def is_ours(self):
        return self.name == "warren"

    def share(self, count):
        """So many of something as this broker is to have: a tenth where it is not ours."""
        return max(int(count * SCALE * (1 if self.is_ours else 0.1)), 10)

    @staticmethod
    def whole(count):
        """So many of something as every broker is to have."""
        return max(int(count * SCALE), 10)

    def start(self):
        """Starts Warren on its folder; returns the seconds until it accepts clients."""
        began = time.monotonic()
        log = (ROOT / "bench-results" / "scale.log").open("a")
        configuration = self.data.with_suffix(".conf")
        configuration.write_text(self.configuration)
        command = [*self.tools.warren, "server", "--listen", "127.0.0.1:0", "--data-dir", str(self.data), "--log", "error",
                   "--config", str(configuration)]
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

    def restart_empty(self):
        """Warren anew on an empty folder."""
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.data, ignore_errors=True)
        self.start()

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

    def rss_max(self):
        """The most that was resident since `forget_rss_max`, bytes, as the system has noted it."""
        return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())[1]) * 1024

    def forget_rss_max(self):
        """The resident bytes of now become the peak."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def io(self, what):
        """Bytes so far: `rchar` it has read, from files and sockets; `write_bytes` are on their way to the disk."""
        return int(re.search(rf"^{what}: (\d+)", Path(f"/proc/{self.pid}/io").read_text(), re.MULTILINE)[1])

    def use(self):
        """CPU seconds so far."""
        return process_use(self.pid)[0]

    def folder(self):
        """Where its data are, as this process sees them."""
        if self.is_ours:
            return self.data
        told = re.search(r'"(.*)"', self.ctl("eval", "rabbit:data_dir().")[0])[1]
        return Path(f"/proc/{self.pid}/root{told}")

    def disk(self):
        """Bytes in the data folder."""
        found = 0
        for file in self.folder().rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                found += file.stat().st_blocks * 512 if file.is_file() else 0
        return found

    def perf_command(self, *arguments):
        return [*self.tools.load, "perf", "-h", self.uri, *map(str, arguments), "--watch-pid", str(self.pid), "--json"]

    def perf(self, *arguments, timeout=1800):
        """Runs `warren perf`: its JSON, and its lines as dicts of rate and p99 (microseconds) a second."""
        done = subprocess.run(self.perf_command(*arguments), capture_output=True, text=True, timeout=timeout, check=False)
        if done.returncode != 0:
            raise Missing(f"load failed: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
        lines = (done.stdout + done.stderr).splitlines()
        series = [seconds for seconds in map(second, lines) if seconds]
        return json.loads(next(line for line in lines if line.startswith("{"))), series

    @contextlib.contextmanager
    def perf_meanwhile(self, *arguments):
        """Runs `warren perf` as long as the block; it ends itself or is ended."""
        process = subprocess.Popen(self.perf_command(*arguments, "--quiet"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


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


class Watcher:
    """A thread with a connection of its own, for as long as a block. Its failure is told at the end of the block."""

    def __init__(self, uri):
        self.uri, self.ended, self.trouble = uri, threading.Event(), None
        self.thread = threading.Thread(target=self._run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.ended.set()
        self.thread.join()
        if self.trouble and kind is None:
            raise Missing(f"{type(self).__name__} was interrupted: {self.trouble}")

    def _run(self):
        try:
            self.work()
        except (OSError, EOFError, RuntimeError) as trouble:
            self.trouble = trouble


class Probe(Watcher):
    """Publishes and gets one message at a time on a queue of its own: how long others wait while something large goes on."""

    def __init__(self, uri):
        super().__init__(uri)
        self.waits = []

    def work(self):
        with amqp.Connection(self.uri) as connection:
            connection.call(amqp.declare("bench-probe"), 50, 11)
            connection.call(amqp.method(85, 10, b"\0"), 85, 11)
            message = amqp.publish("bench-probe", b"probe")
            get = amqp.get("bench-probe", no_ack=True)
            while not self.ended.is_set():
                began = time.monotonic()
                connection.call(message, 60, 80)
                connection.call(get, 60, 71)
                connection.next(), connection.next()
                self.waits.append(time.monotonic() - began)
                time.sleep(0.002)
            connection.call(amqp.delete("bench-probe"), 50, 41)

    def figures(self):
        return {f"probe_{name}": ms for name, ms in in_ms(self.waits).items()}


class Publisher(Watcher):
    """Publishes a message a millisecond into a queue, at most a hundred unconfirmed, and notes how long after it was due each was confirmed."""

    PERIOD_S, UNCONFIRMED_MAX = 0.001, 100

    def __init__(self, uri, queue, body_bytes):
        super().__init__(uri)
        self.message, self.waits, self.unconfirmed = amqp.publish(queue, b"p" * body_bytes), [], collections.OrderedDict()

    def work(self):
        with amqp.Connection(self.uri) as connection:
            connection.call(amqp.method(85, 10, b"\0"), 85, 11)
            due, tag = time.monotonic(), 0
            while not self.ended.is_set():
                while due <= time.monotonic() and len(self.unconfirmed) < self.UNCONFIRMED_MAX:
                    connection.send(self.message)
                    tag += 1
                    self.unconfirmed[tag] = due
                    due += self.PERIOD_S
                is_full = len(self.unconfirmed) == self.UNCONFIRMED_MAX
                self.note(connection.method_within(0.1 if is_full else max(due - time.monotonic(), 0)))

    def note(self, confirm):
        """A method that came, if one came."""
        if confirm is None or confirm[:4] != b"\0\x3c\0\x50":
            return
        tag, is_multiple = int.from_bytes(confirm[4:12], "big"), confirm[12] & 1
        tags = [one for one in self.unconfirmed if one <= tag] if is_multiple else [tag]
        self.waits += [time.monotonic() - self.unconfirmed.pop(one) for one in tags]

    def waits_of(self, seconds):
        """The figures of the next so many seconds."""
        self.waits = []
        time.sleep(seconds)
        return self.waits


class Blocked(Watcher):
    """A publisher that notes when it is told that it is blocked, and that it is not any more."""

    BLOCKED, UNBLOCKED = b"\0\x0a\0\x3c", b"\0\x0a\0\x3d"

    def __init__(self, uri):
        super().__init__(uri)
        self.times, self.seconds, self.since = 0, 0.0, None

    def work(self):
        with amqp.Connection(self.uri, **{"connection.blocked": True}) as connection:
            while not self.ended.is_set():
                if self.since is None:
                    connection.send(amqp.publish("bench-nobody", b"x"))
                self.note(connection.method_within(0.05))
            self.note(self.UNBLOCKED)

    def note(self, found):
        """A method that came, if one came."""
        kind = found and found[:4]
        if kind == self.BLOCKED and self.since is None:
            self.times, self.since = self.times + 1, time.monotonic()
        elif kind == self.UNBLOCKED and self.since is not None:
            self.seconds, self.since = self.seconds + time.monotonic() - self.since, None


class Resident(Watcher):
    """Notes what is resident, ten times a second."""

    def __init__(self, node):
        super().__init__(node.uri)
        self.node, self.found = node, []

    def work(self):
        while not self.ended.wait(0.1):
            self.found.append(self.node.rss())

    def median(self):
        """Bytes."""
        return sorted(self.found)[len(self.found) // 2]


def in_ms(waits):
    """Median, p99 and longest of waits in seconds."""
    waits = sorted(waits) or [0]
    at = lambda share: round(waits[min(int(len(waits) * share), len(waits) - 1)] * 1000, 2)
    return {"p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1)}


def confirms(load):
    """The time that the publisher of a run of `warren perf` waited for its confirms, milliseconds."""
    latency = load["confirm_latency_us"] or {}
    return {f"{name}_ms": latency.get(key, 0) / 1000 for name, key in (("p50", "p50"), ("p99", "p99"), ("worst", "max"))}


def counts_of(connection, queue):
    """Ready messages and consumers."""
    answer = connection.call(amqp.method(50, 10, b"\0\0" + amqp.short(queue) + b"\x01" + amqp.table()), 50, 11)
    at = 5 + answer[4]
    return int.from_bytes(answer[at:at + 4], "big"), int.from_bytes(answer[at + 4:at + 8], "big")


def depth_of(connection, queue):
    """Ready messages."""
    return counts_of(connection, queue)[0]


def wait_for_depth(connection, queue, count, seconds=60):
    """Until so many messages are ready."""
    deadline = time.monotonic() + seconds
    while depth_of(connection, queue) != count:
        if time.monotonic() > deadline:
            raise Missing(f"{queue} has {depth_of(connection, queue)} messages and not {count}")
        time.sleep(0.02)
