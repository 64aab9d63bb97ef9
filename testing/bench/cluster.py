"""The bounds of clusters: what a listener for links costs a single node, a hop through another node, changes of metadata, idle nodes, a restart.

    python3 cluster.py --warren BINARY [--seconds 8] [--queues 100000] [alone hop changes idle restart ...]

CPU is that of the brokers' processes, so figures of a busy machine are too high rather than wrong. Prints a line for each figure.
"""

import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]

import amqp  # noqa: E402
from bench import process_use  # noqa: E402
from nodes import Cluster, Node, free_port  # noqa: E402

QUEUE = "bound"


def cpu_s(nodes):
    return [process_use(node.pid)[0] for node in nodes]


def perf(binary, uri, seconds, *words):
    """The figures of a run of `warren perf`."""
    command = [binary, "perf", "-h", uri, "-e", "", "-k", QUEUE, "-u", QUEUE, "-s", "12", "-z", str(seconds), "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def load(options, publish_at, consume_at, nodes):
    """Floods a queue; gives us of CPU per message and node, and messages a second."""
    consumer = subprocess.Popen([options.warren, "perf", "-h", consume_at.url, "-u", QUEUE, "-x", "0", "-y", "1", "-p", "-a", "-z", str(options.seconds + 4)],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2)
    before, begin = cpu_s(nodes), time.monotonic()
    run = perf(options.warren, publish_at.url, options.seconds, "-x", "1", "-y", "0", "-p", "-c", "1000")
    used, took = [after - was for after, was in zip(cpu_s(nodes), before)], time.monotonic() - begin
    consumer.send_signal(signal.SIGINT)
    consumer.wait()
    count = run["sent"] if "sent" in run else run["published"]
    return [1e6 * one / count for one in used], count / took


def declare(node):
    with amqp.Connection(node.url) as connection:
        connection.pipeline([amqp.declare(QUEUE)])


def alone(options, folder):
    """CPU of a node without and with a listener for links, in turn."""
    figures = {False: [], True: []}
    for turn in range(options.rounds):
        for is_member in (False, True):
            place = pathlib.Path(folder) / f"alone-{turn}-{is_member}"
            place.mkdir()
            if is_member:
                port = free_port()
                node = Node(options.warren, place, "n1@localhost", port, f"127.0.0.1:{port}", [f"127.0.0.1:{port}"])
            else:
                node = Node.__mro__[1](options.warren, place)
            node.start()
            declare(node)
            figures[is_member].append(load(options, node, node, [node])[0][0])
            node.stop()
    least = {is_member: min(values) for is_member, values in figures.items()}
    print(f"alone: {least[False]:.3f} us/message without, {least[True]:.3f} with a listener for links, {100 * (least[True] / least[False] - 1):+.1f} % ({figures})", flush=True)


def hop(options, cluster):
    a, b, _ = cluster.nodes
    declare(a)
    for what, publish_at, consume_at in (("none", a, a), ("publisher", b, a), ("consumer", a, b)):
        best = min((load(options, publish_at, consume_at, [a, b]) for _ in range(options.rounds)), key=lambda it: sum(it[0]))
        print(f"hop of the {what}: node of the queue {best[0][0]:.3f}, other node {best[0][1]:.3f} us/message, {best[1]:,.0f} messages/s", flush=True)


def changes(options, cluster):
    for node in cluster.nodes:
        with amqp.Connection(node.url) as connection:
            count = 20_000
            begin, before = time.monotonic(), cpu_s(cluster.nodes)
            connection.pipeline(amqp.declare(f"{node.name}.{nth}") for nth in range(count))
            took, used = time.monotonic() - begin, sum(cpu_s(cluster.nodes)) - sum(before)
            print(f"changes at {node.name}: {count / took:,.0f} declarations/s, {1e6 * used / count:.1f} us of CPU of all nodes for each", flush=True)
            connection.pipeline(amqp.delete(f"{node.name}.{nth}") for nth in range(count))


def idle(options, cluster):
    time.sleep(5)
    before = cpu_s(cluster.nodes)
    time.sleep(30)
    print("idle:", ", ".join(f"{node.name} {100 * (after - was) / 30:.2f} %" for node, after, was in zip(cluster.nodes, cpu_s(cluster.nodes), before)), "of a core", flush=True)


def restart(options, cluster):
    for nth, node in enumerate(cluster.nodes):
        with amqp.Connection(node.url) as connection:
            connection.pipeline(amqp.declare(f"kept.{nth}.{one}") for one in range(options.queues // 3))
    for how in ("stop", "kill"):
        for node in cluster.nodes:
            getattr(node, how)()
            begin = time.monotonic()
            node.start()
            print(f"restart after {how}: {node.name} accepts clients after {time.monotonic() - begin:.2f} s", flush=True)
            cluster.wait(cluster.nodes, deadline_s=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warren", required=True)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queues", type=int, default=100_000)
    parser.add_argument("what", nargs="*", default=["alone", "hop", "changes", "idle", "restart"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if "alone" in options.what:
            alone(options, folder)
        rest = [what for what in options.what if what != "alone"]
        if rest:
            with Cluster(options.warren, folder, 3) as cluster:
                for what in rest:
                    globals()[what](options, cluster)


if __name__ == "__main__":
    main()
