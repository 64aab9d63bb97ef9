#!/usr/bin/env python3
"""`warren perf` and `warren bench` used as people use them: PerfTest's command lines with counts that must come out exactly,
and a short suite that is stopped in the middle, goes on, reports, compares, and leaves nothing behind.

    check.py --warren BINARY --url amqp://...
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid

import pika

RUN = uuid.uuid4().hex[:8]
DEADLINE_S = 180
RATE = r"(\d+(?:\.\d+)?) msg/s"
FIVE = r"\d+/\d+/\d+/\d+/\d+ (?:µs|ms)"

# Arguments, and what the JSON must say. Each has a queue and an exchange of its own.
COUNTED = [
    ("-C 2000 -D 2000 -c 100 -f persistent -q 100 -A 10", {"sent": 2000, "received": 2000, "confirmed": 2000}),
    ("-C 600 -D 600 -m 50 -n 25 -q 100", {"sent": 600, "received": 600}),
    ("-C 300 -D 300 -po -pi 1", {"sent": 300, "received": 300}),
    ("-C 300 -D 300 -na -re false", {"sent": 300, "received": 300}),
    ("-C 100 -D 100 -jb -s 700 -mp priority=3,tenant=acme -T application/json", {"sent": 100, "received": 100}),
    ("-C 100 -y 0 -f mandatory -k nobody -sb -c 10", {"sent": 100, "returned": 100, "confirmed": 100}),
    ("-C 100 -D 100 -t topic -k # -K -rkcs 5", {"sent": 100, "received": 100}),
    ("-x 2 -X 2 -y 2 -C 50 -D 100 -vs 20:1 -vs 2000:1", {"sent": 200, "received": 200}),
    ("-E -t fanout -x 1 -y 3 -C 100 -D 100", {"sent": 100, "received": 300}),
    ("-z 2 -vr 50:1 -vr 0:60", {"sent": 50, "received": 50}),
    ("-C 100 -D 100 -r 200 -L 1000 -q 5", {"sent": 100, "received": 100}),
]
REFUSED = [("-h http://127.0.0.1", "amqp://"), ("-ei 2", "not synchronised"), ("-mda", "Prometheus only"), ("-q 5 -A 6", "--qos"), ("--sasl-external", "not in this build"), ("--nope", "--nope")]


def warren(options, *words, check=0):
    """Runs a command to its end; gives stdout and stderr."""
    done = subprocess.run([options.warren, *words], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode != check:
        raise SystemExit(f"warren {' '.join(words)}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout, done.stderr


def perf(options, arguments, name, check=0):
    own = ["-u", name] if "-E" not in arguments.split() else []
    return warren(options, "perf", "-h", options.url, *own, "-e", name, *arguments.split(), check=check)


def counted(options):
    for number, (arguments, expected) in enumerate(COUNTED):
        out, _ = perf(options, f"{arguments} --json", f"perf.{RUN}.{number}")
        figures = json.loads(out)
        found = {name: figures[name] for name in expected}
        assert found == expected, (arguments, found)
        if figures["received"]:
            assert 0 < figures["latency_us"]["p50"] < 60e6, (arguments, figures["latency_us"])
    print(f"{len(COUNTED)} command lines counted")


def own_queues(options):
    """Consumers without a named queue have one each, as with PerfTest, and an exchange that PerfTest declared is no obstacle."""
    name = f"perf.{RUN}.own"
    with pika.BlockingConnection(pika.URLParameters(options.url)) as connection:
        connection.channel().exchange_declare(name, "direct", durable=True)
    out, _ = warren(options, "perf", "-h", options.url, "-e", name, *"-y 2 -Y 2 -C 100 -D 100 -ad false --clean-up --json".split())
    figures = json.loads(out)
    assert (figures["sent"], figures["received"]) == (100, 400), figures
    print("consumers without a named queue have one each")


def lines(options):
    """The words of PerfTest, for those who read its output with programs."""
    name = f"perf.{RUN}.lines"
    out, _ = perf(options, "-z 2 -r 100 -c 10 -d t", name)
    assert re.search(rf"^id: t, time \d+\.\d+ s, sent: {RATE}, confirmed: {RATE}, nacked: 0 msg/s, received: {RATE}, "
                     rf"min/median/75th/95th/99th consumer latency: {FIVE}, confirm latency: {FIVE}$", out, re.M), out
    for line in ("test stopped (Reached time limit)", "id: t, sending rate avg: ", "id: t, receiving rate avg: ",
                 "id: t, consumer latency min/median/75th/95th/99th "):
        assert line in out, (line, out)
    out, _ = perf(options, "-z 1 -r 100 -mf compact", name)
    assert re.search(r"^time +sent +received +consumer latency$", out, re.M), out
    # A backlog that stays, and is drained by another run: `-ad false` as PerfTest means it.
    perf(options, "-ad false -y 0 -C 500 -c 50", name)
    out, _ = perf(options, "-ad false -x 0 --exit-when empty --clean-up --json", name)
    assert json.loads(out)["received"] == 500, out
    for arguments, reason in REFUSED:
        _, err = warren(options, "perf", *arguments.split(), check=2)
        assert reason in err, (arguments, err)
    print("lines are PerfTest's, mistakes are explained")


def ended_by_a_signal(options):
    """Ctrl-C: the summary is printed, and what was declared goes."""
    name = f"perf.{RUN}.signal"
    command = [options.warren, "perf", "-h", options.url, "-u", name, "-e", name, "-r", "50", "-ad", "false", "--clean-up"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert "sent: " in run.stdout.readline()
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=DEADLINE_S)
    assert run.returncode == 0 and "test stopped\n" in out and "receiving rate avg: " in out, out
    with pika.BlockingConnection(pika.URLParameters(options.url)) as connection:
        try:
            connection.channel().queue_declare(name, passive=True)
        except pika.exceptions.ChannelClosedByBroker as closed:
            assert closed.reply_code == 404, closed
        else:
            raise AssertionError(f"{name} was left behind")
    print("a signal ends a run in order")


def from_the_environment(options):
    name = f"perf.{RUN}.env"
    environment = {"PT_QUEUE": name, "PT_EXCHANGE": name, "PT_PMESSAGES": "40", "PT_CMESSAGES": "40", "PT_AUTOACK": "true",
                   "PT_VARIABLE_SIZE": "20:1,40:1", "RABBITMQ_PERF_TEST_ENV_PREFIX": "PT"}
    done = subprocess.run([options.warren, "perf", "-h", options.url, "-C", "7", "--json"], capture_output=True, text=True,
                          timeout=DEADLINE_S, check=True, env={**os.environ, **environment})
    assert json.loads(done.stdout)["received"] == 40, done.stdout
    assert "taken from the environment: " in done.stderr and "PT_PMESSAGES" in done.stderr, done.stderr
    out, _ = warren(options, "perf", "--environment-variables")
    assert "MULTI_ACK_EVERY " in out, out
    print("options come from the environment")


def server(options, listen, data):
    """A Warren of its own, and its address."""
    process = subprocess.Popen([options.warren, "server", "--listen", listen, "--data-dir", data, "--log", "error"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in process.stdout:
        found = re.match(r"ready .*?amqp=(\S+)", line)
        if found:
            return process, found[1]
    raise AssertionError("a server did not start")


def recovered(options, folder):
    """A broker that is killed and comes back: the run goes on, and its metrics can be asked meanwhile."""
    data = os.path.join(folder, "recovery")
    broker, address = server(options, "127.0.0.1:0", data)
    command = [options.warren, "perf", "-h", f"amqp://{address}", "-x", "2", "-y", "2", "-c", "10", "-r", "200", "-cri", "0",
               "-mpr", "-mpp", "0", "--json", "-i", "0.2"]
    try:
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        page = run.stderr.readline().split()[-1]
        assert "sent: " in run.stderr.readline()
        with urllib.request.urlopen(page, timeout=DEADLINE_S) as answer:
            metrics = answer.read().decode()
        assert re.search(r"^perftest_published \d", metrics, re.M) and "perftest_latency_seconds_count " in metrics, metrics
        broker.kill()
        broker.wait()
        broker, _ = server(options, address, data)
        back = {"consuming": 0, "publishing": 0}
        while min(back.values()) < 2:
            line = run.stderr.readline()
            assert line, back
            if found := re.match(r"note: (\d+) (\w+) connections back", line):
                back[found[2]] += int(found[1])
        while "received: 0 msg/s" in (line := run.stderr.readline()):
            assert line, back
        run.send_signal(signal.SIGTERM)
        out, _ = run.communicate(timeout=DEADLINE_S)
        assert run.returncode == 0 and json.loads(out)["received"] > 0, out
    finally:
        broker.kill()
        broker.wait()
    print("a broker that came back was loaded again")


def bench(options, folder, *more):
    tests = "max-rate,drain,fan-in,nack,backlog-memory,restart"
    return [options.warren, "bench", "suite", "--warren", options.warren, "--peer", options.url, "--output", folder, "--tests", tests, "--sizes", "12",
            "--minutes-per-test", "0.02", "--connections-max", "50", "--backlog-bytes-max", "500000", *more]


def suite(options, folder):
    file = os.path.join(folder, "suite.json")
    first = subprocess.Popen(bench(options, folder), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
    told = [first.stderr.readline() for _ in range(3)]
    first.send_signal(signal.SIGINT)
    first.wait(DEADLINE_S)
    first.stderr.close()
    assert first.returncode == 130, first.returncode
    before = len(json.loads(open(file, encoding="utf-8").read())["measurements"])
    assert before >= 2, told
    left = [name for name in os.listdir(folder) if not name.startswith("suite.")]
    assert not left, left
    _, err = warren(options, *bench(options, folder)[1:])
    assert "going on with" in err, err
    results = json.loads(open(file, encoding="utf-8").read())
    found = {(m["test"], m["broker"]): m for m in results["measurements"]}
    brokers = results["plan"]["brokers"]
    assert len(brokers) == 2 and len(found) == 2 * 8, (brokers, list(found))
    for (test, broker), measurement in found.items():
        if test != "restart":
            assert measurement.get("failure") is None, (test, broker, measurement["failure"])
            assert measurement["figures"]["sent"] + measurement["figures"]["received"] > 0, (test, broker)
    assert found["drain", "Warren"]["figures"]["received"] == found["growing", "Warren"]["figures"]["sent"]
    assert found["nack", brokers[1]]["figures"]["received"] == found["fill", brokers[1]]["figures"]["sent"]
    assert [name for name, _ in found["restart", "Warren"]["notes"]][-1].startswith("start after kill -9")
    page = open(os.path.join(folder, "suite.html"), encoding="utf-8").read()
    assert "<h2>Verdict</h2>" in page and "measurements, even in" in page, page[:3000]
    assert page.count("<figure>") > 20 and "<h2 id=\"restart\">" in page and "http" not in page.split("</style>")[1].split("<iframe")[0]
    out, _ = warren(options, "bench", "compare", file, file)
    assert "max-rate" in out and "worse" not in out, out
    left = [name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name))]
    assert not left, left
    _, err = warren(options, *bench(options, folder, "--fresh", "--peer", "amqp://192.0.2.1")[1:], check=1)
    assert "--yes-this-host" in err, err
    print(f"suite: {before} measurements before it was stopped, {len(found)} in all; report of {len(page) // 1024} KiB")


def nothing_left(options):
    with pika.BlockingConnection(pika.URLParameters(options.url)) as connection:
        for kind, name in [("queue", "warren-bench-max"), ("queue", "warren-bench-grow"), ("queue", "warren-bench-nack"),
                           ("queue", "warren-bench-memory"), ("exchange", "warren-bench"), ("queue", f"perf.{RUN}.lines")]:
            channel = connection.channel()
            try:
                (channel.queue_declare if kind == "queue" else channel.exchange_declare)(name, passive=True)
            except pika.exceptions.ChannelClosedByBroker as closed:
                assert closed.reply_code == 404, closed
            else:
                raise AssertionError(f"{kind} {name} was left behind")
    print("nothing left behind")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warren", required=True)
    parser.add_argument("--url", required=True)
    options = parser.parse_args()
    began = time.monotonic()
    counted(options)
    own_queues(options)
    lines(options)
    ended_by_a_signal(options)
    from_the_environment(options)
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as folder:
        recovered(options, folder)
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as folder:
        suite(options, folder)
    nothing_left(options)
    print(f"{len(COUNTED) + len(REFUSED) + 7} passed in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    sys.exit(main())
