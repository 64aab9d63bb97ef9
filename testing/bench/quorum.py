"""The bounds of quorum queues: CPU of leader and follower, confirms of a calm publisher, failover, idle queues, restarts, backlogs and their memory.

    python3 quorum.py --warren BINARY [--scale 1] [alone rates calm failover backlog many idle ...]

Three nodes on this machine, bodies of 12 bytes, persistent and confirmed. `--scale 0.1` takes a tenth of the messages and queues. CPU is that of
the brokers' processes, so figures of a busy machine are too high rather than wrong. Prints a line for each figure.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]

import amqp  # noqa: E402
from bench import process_use  # noqa: E402
from nodes import Cluster  # noqa: E402

# Queues keep messages in memory while there is plenty: a quarter of the watermark, all together.
SMALL = "vm_memory_high_watermark.absolute = 400MB\n"
QUORUM = {"x_queue_type": "quorum"}


def cpu_s(nodes):
    return [process_use(node.pid)[0] for node in nodes]


def resident_mb(nodes):
    return [process_use(node.pid)[1] * 1024 / 1e6 for node in nodes]


def perf(options, uri, *words):
    """The figures of a run of `warren perf`."""
    command = [options.warren, "perf", "-h", uri, "-e", "", "-s", "12", "-f", "persistent", "--json", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def declare(node, queue):
    with amqp.Connection(node.url) as connection:
        connection.pipeline([amqp.declare(queue, **QUORUM)])


def until_in_sync(cluster, queue):
    """Waits until each member of a queue has all of it."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        status, text, _ = cluster.nodes[0].ctl("quorum_status", queue, "--formatter", "json")
        if status == 0 and text.count('"voter"') == len(cluster.nodes):
            return
        time.sleep(0.5)
    raise SystemExit(f"the members of {queue} are not in sync within 120 s")


def with_use(nodes, count, work):
    """Runs work; gives us of CPU per message and node."""
    before = cpu_s(nodes)
    work()
    return [1e6 * (after - was) / count() for after, was in zip(cpu_s(nodes), before)]


def flow(options, cluster, queue, seconds, *words):
    """A publisher with confirms and a consumer that acks, both at the leader."""
    nodes, done = cluster.nodes, {}

    def work():
        done.update(perf(options, nodes[0].url, "-p", "-k", queue, "-u", queue, "-c", 1000, "-A", 100, "-q", 1000, "-z", seconds, *words))

    return with_use(nodes, lambda: done["received"], work), done


def rates(options, cluster):
    declare(cluster.nodes[0], "flow")
    until_in_sync(cluster, "flow")
    used, done = min((flow(options, cluster, "flow", 8) for _ in range(3)), key=lambda it: sum(it[0]))
    each = ", ".join(f"{one:.3f}" for one in used)
    print(f"rates: {done['received_per_s']:,.0f} messages/s; us/message of the leader and of the others: {each}", flush=True)


def calm(options, cluster):
    declare(cluster.nodes[0], "calm")
    until_in_sync(cluster, "calm")
    _, done = flow(options, cluster, "calm", 20, "-r", 1000)
    latency = done["confirm_latency_us"]
    print(f"calm: confirms at 1,000 messages/s: p50 {latency['p50'] / 1e3:.2f}, p99 {latency['p99'] / 1e3:.2f}, worst {latency['max'] / 1e3:.1f} ms", flush=True)


class Beat(threading.Thread):
    """Notes when something happened."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self.times, self.is_over, self.work = [], False, work
        self.start()

    def run(self):
        for _ in self.work():
            self.times.append(time.monotonic())
            if self.is_over:
                return

    def longest_pause_s(self, since):
        times = [since] + [one for one in self.times if one >= since]
        return max(after - before for before, after in zip(times, times[1:]))


def confirmed(node, queue):
    """Publishes one by one; gives a value for each confirm. A publish that was refused is not counted, the next one follows."""
    with amqp.Connection(node.url) as connection:
        connection.call(amqp.method(85, 10, b"\0"), 85, 11)
        while True:
            connection.send(amqp.publish(queue, b"0123456789ab", persistent=True))
            kind, answer = connection.next()
            if (kind, answer[:4]) == (1, b"\0\x3c\0\x50"):
                yield answer


def received(node, queue):
    """A consumer without acks; gives a value for each delivery."""
    with amqp.Connection(node.url) as connection:
        consume = b"\0\0" + amqp.short(queue) + amqp.short("") + b"\x02" + amqp.table()
        connection.call(amqp.method(60, 20, consume), 60, 21)
        while True:
            yield connection.expect(60, 60), connection.next(), connection.next()


def failover(options, cluster):
    a, b, c = cluster.nodes
    pauses = []
    for nth in range(5):
        queue = f"failover{nth}"
        declare(a, queue)
        until_in_sync(cluster, queue)
        publisher, consumer = Beat(lambda: confirmed(b, queue)), Beat(lambda: received(c, queue))
        time.sleep(2)
        killed = time.monotonic()
        a.kill()
        time.sleep(5)
        pauses.append((publisher.longest_pause_s(killed), consumer.longest_pause_s(killed)))
        publisher.is_over = consumer.is_over = True
        a.start()
        cluster.wait(cluster.nodes, deadline_s=60)
    for what, which in (("publisher", 0), ("consumer", 1)):
        print(f"failover: pause of the {what} after kill -9 of the leader, s: {', '.join(f'{one[which]:.2f}' for one in pauses)}", flush=True)


def fill(options, cluster, queue, count):
    done = {}

    def work():
        done.update(perf(options, cluster.nodes[0].url, "-p", "-k", queue, "-u", queue, "-x", 1, "-y", 0, "-c", 1000, "-C", count))

    return with_use(cluster.nodes, lambda: count, work), done["confirmed_per_s"]


def backlog(options, cluster):
    count = int(1_000_000 * options.scale)
    declare(cluster.nodes[0], "backlog")
    until_in_sync(cluster, "backlog")
    fill(options, cluster, "backlog", count // 10)
    before = resident_mb(cluster.nodes)
    for nth in range(5):
        used, rate = fill(options, cluster, "backlog", count)
        memory = ", ".join(f"{1e6 * (now - was) / (count * (nth + 1)):.2f}" for now, was in zip(resident_mb(cluster.nodes), before))
        each = ", ".join(f"{one:.3f}" for one in used)
        print(f"backlog: up to {(nth + 1) * count:,}: {rate:,.0f} confirms/s, {each} us/message, bytes of memory for each message {memory}", flush=True)
    total = 5 * count
    done = {}

    def work():
        done.update(perf(options, cluster.nodes[0].url, "-p", "-k", "backlog", "-u", "backlog", "-x", 0, "-y", 1, "-A", 100, "-q", 1000, "-D", total))

    used = with_use(cluster.nodes, lambda: total, work)
    print(f"backlog: drained at {done['received_per_s']:,.0f}/s, {', '.join(f'{one:.3f}' for one in used)} us/message", flush=True)


def many(options, cluster):
    """500 queues with more and more messages on nodes that may use 400 MB: memory of a message, and what 100,000,000 would take."""
    queues, each = 500, int(10_000 * options.scale)
    with amqp.Connection(cluster.nodes[0].url) as connection:
        connection.pipeline(amqp.declare(f"many{nth:03}", **QUORUM) for nth in range(1, queues + 1))
    until_in_sync(cluster, "many500")
    points = []
    for _ in range(2):
        perf(options, cluster.nodes[0].url, "-p", "--queue-pattern", "many%03d", "--queue-pattern-from", 1, "--queue-pattern-to", queues,
             "-x", queues, "-y", 0, "-c", 200, "-C", each)
        time.sleep(15)
        points.append(resident_mb(cluster.nodes))
        print(f"many: {queues} queues, {queues * each * len(points):,} messages: {', '.join(f'{one:.0f}' for one in points[-1])} MB", flush=True)
    slopes = [max(0.0, 1e6 * (after - before) / (queues * each)) for before, after in zip(*points)]
    wanted = [now + slope * (100_000_000 - 2 * queues * each) / 1e6 for now, slope in zip(points[-1], slopes)]
    print(f"many: {', '.join(f'{one:.2f}' for one in slopes)} bytes a message; 100,000,000 would take {', '.join(f'{one:.0f}' for one in wanted)} MB", flush=True)


def idle(options, cluster):
    count = int(10_000 * options.scale)
    for nth, node in enumerate(cluster.nodes):
        with amqp.Connection(node.url) as connection:
            connection.pipeline(amqp.declare(f"idle.{nth}.{one}", **QUORUM) for one in range(count // 3))
    time.sleep(20)
    before = cpu_s(cluster.nodes)
    time.sleep(30)
    used = [100 * (after - was) / 30 for after, was in zip(cpu_s(cluster.nodes), before)]
    print(f"idle: {count:,} queues of three members: {', '.join(f'{one:.2f} %' for one in used)} of a core, {', '.join(f'{one:.0f}' for one in resident_mb(cluster.nodes))} MB", flush=True)
    for how in ("stop", "kill"):
        node = cluster.nodes[1]
        getattr(node, how)()
        begin = time.monotonic()
        node.start()
        print(f"idle: restart after {how} with {count:,} queues: accepts clients after {time.monotonic() - begin:.2f} s", flush=True)
        cluster.wait(cluster.nodes, deadline_s=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warren", required=True)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("what", nargs="*", default=["rates", "calm", "failover", "backlog", "many", "idle"])
    options = parser.parse_args()
    for what in options.what:
        config = SMALL if what == "many" else ""
        with tempfile.TemporaryDirectory() as folder, Cluster(options.warren, folder, 1 if what == "alone" else 3, config) as cluster:
            (rates if what == "alone" else globals()[what])(options, cluster)


if __name__ == "__main__":
    main()
