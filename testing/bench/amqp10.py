#!/usr/bin/env python3
"""AMQP 1.0 beside other brokers: one sender, one receiver, 12 bytes, credit 1000, ranges of dispositions.

    amqp10.py [--seconds 10] [--rounds 3] [--port 21110]

WARREN_BIN is the binary, which makes the load, too. PEER is a command that runs RabbitMQ (see run.sh); without it there is none.
ARTEMIS is a folder with the jars of `artemis-server` and `artemis-amqp-protocol`; without it there is none (`mvn dependency:copy-dependencies`).
Each round measures every broker once. A line has the median of its rounds: microseconds of the broker's CPU for a message that was
published, confirmed, delivered and accepted; messages per second; and the ratio to Warren's figure with AMQP 0-9-1.
"""

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from brokers import PEER_URI, Absent, Rabbitmq

ARTEMIS = """
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;

class Broker {
    public static void main(String[] words) throws Exception {
        var configuration = new ConfigurationImpl().setPersistenceEnabled(false).setSecurityEnabled(false);
        configuration.addAcceptorConfiguration("amqp", "tcp://127.0.0.1:" + words[0] + "?protocols=AMQP");
        new EmbeddedActiveMQ().setConfiguration(configuration).start();
        Thread.currentThread().join();
    }
}
"""
START_SECONDS = 60


def load(warren, seconds, uri, pid, *words):
    """Figures of a run of `warren perf`."""
    watch = "--pid" if words[0] == "--amqp10" else "--watch-pid"
    command = [warren, "perf", *words, "--json", "--time", str(seconds), watch, str(pid)]
    done = subprocess.run([word.replace("URI", uri) for word in command], capture_output=True, text=True, timeout=seconds + 60, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} with {uri}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def by_1_0(warren, seconds, uri, pid, *words, confirm=1000, every=100):
    limits = ["--credit", "1000", "--multi-ack-every", str(every), "--confirm", str(confirm)]
    figures = load(warren, seconds, uri, pid, "--amqp10", "--uri", "URI", "--size", "12", *limits, *words)
    return figures["broker_cpu_us"] / max(figures["consumed"], 1), figures["consumed_per_s"]


def by_0_9_1(warren, seconds, uri, pid):
    figures = load(warren, seconds, uri, pid, "-h", "URI", "--size", "12", "--qos", "1000", "--multi-ack-every", "100", "--confirm", "1000")
    return figures["broker"]["cpu_s"] * 1e6 / max(figures["received"], 1), figures["received_per_s"]


def wait_for(port, process):
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise SystemExit(f"{process.args[0]} does not listen on {port}")


@contextlib.contextmanager
def running(command, port, folder):
    """A broker that ends with the block."""
    with open(Path(folder) / "broker.log", "wb") as log, subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as process:
        try:
            wait_for(port, process)
            yield process.pid
        finally:
            process.terminate()


def artemis(jars, port, folder):
    source = Path(folder) / "Broker.java"
    source.write_text(ARTEMIS)
    return ["java", "-Xmx1g", "-cp", f"{jars}/*", str(source), str(port)]


def measured(options, warren, folder, rabbitmq):
    """One round: names and figures."""
    own_port, artemis_port = options.port, options.port + 1
    uri = f"amqp://guest:guest@127.0.0.1:{own_port}"
    command = [warren, "server", "--listen", f"127.0.0.1:{own_port}", "--data-dir", f"{folder}/data", "--log", "error"]
    with running(command, own_port, folder) as pid:
        yield "Warren, 0-9-1", by_0_9_1(warren, options.seconds, uri, pid)
        yield "Warren", by_1_0(warren, options.seconds, uri, pid)
        yield "Warren, settled", by_1_0(warren, options.seconds, uri, pid, confirm=0, every=0)
    with contextlib.suppress(Absent), rabbitmq(None, None) as peer:
        uri = PEER_URI.replace("//", "//guest:guest@")
        yield "RabbitMQ, 0-9-1", by_0_9_1(warren, options.seconds, uri, peer.pid)
        yield "RabbitMQ", by_1_0(warren, options.seconds, uri, peer.pid)
    if jars := os.environ.get("ARTEMIS"):
        uri = f"amqp://guest:guest@127.0.0.1:{artemis_port}"
        with running(artemis(jars, artemis_port, folder), artemis_port, folder) as pid:
            by_1_0(warren, options.seconds, uri, pid, "--addresses", "warm")     # its code is compiled as it runs
            yield "ActiveMQ Artemis", by_1_0(warren, options.seconds, uri, pid, "--addresses", "bench")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=21110, help="this port and the next one are used")
    options = parser.parse_args()
    warren = os.environ.get("WARREN_BIN", "warren")
    rabbitmq, figures = Rabbitmq(), {}
    try:
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:
                for name, figure in measured(options, warren, folder, rabbitmq):
                    print(f"{name}: {figure[0]:.3f} us, {figure[1]:.0f} msg/s", file=sys.stderr)
                    figures.setdefault(name, []).append(figure)
    finally:
        rabbitmq.stop()
    medians = {name: [statistics.median(column) for column in zip(*all_of_it)] for name, all_of_it in figures.items()}
    base = medians["Warren, 0-9-1"][0]
    print("| broker | us CPU/message | msg/s | to Warren's 0-9-1 |\n|---|---|---|---|")
    for name, (us, rate) in medians.items():
        print(f"| {name} | {us:.3f} | {rate:.0f} | {us / base:.2f} |")


if __name__ == "__main__":
    main()
