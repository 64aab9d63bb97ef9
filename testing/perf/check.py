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
import uuid

import pika

RUN = uuid.uuid4().hex[:8]
DEADLINE_S = 60
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
REFUSED = [("-h amqps://127.0.0.1", "TLS"), ("-q 5 -A 6", "--qos"), ("--sasl-external", "not in this build"), ("--nope", "--nope")]


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


def bench(options, folder, *more):
    tests = "max-rate,drain,fan-in,nack,backlog-memory,restart"
    return [options.warren, "bench", "suite", "--peer", options.url, "--output", folder, "--tests", tests, "--sizes", "12",
            "--minutes-per-test", "0.02", "--connections-max", "50", "--backlog-bytes-max", "500000", *more]


def suite(options, folder):
    file = os.path.join(folder, "suite.json")
    first = subprocess.Popen(bench(options, folder), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
    told = [first.stderr.readline() for _ in range(3)]
    os.killpg(first.pid, signal.SIGINT)
    first.wait(DEADLINE_S)
    first.stderr.close()
    before = len(json.loads(open(file, encoding="utf-8").read())["measurements"])
    assert before >= 2, told
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
    lines(options)
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as folder:
        suite(options, folder)
    nothing_left(options)
    print(f"{len(COUNTED) + len(REFUSED) + 4} passed in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    sys.exit(main())
