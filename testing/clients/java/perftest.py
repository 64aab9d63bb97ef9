#!/usr/bin/env python3
"""RabbitMQ PerfTest (the Java client under load) run to completion with many argument sets, its figures checked.

    perftest.py [--url URL] [--seconds N] [--jars DIR] [--list] [CASE...]

Every case must exit with 0 before its deadline and receive something; where producers and consumers have message limits the
counts must come out exactly: what was sent and not consumed is in the queue, and nothing else. Knows nothing of the broker
but its URL. `--seconds` bounds the cases without a message limit (the issue's own argument sets run for 20 s by hand, 5 s in CI).
"""

import argparse
import glob
import os
import re
import subprocess
import sys
import time
import uuid

import pika

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
RUN = uuid.uuid4().hex[:8]
DEADLINE_S = 90          # on top of --seconds: JVM start, declarations, draining, closing 200 connections on 2 busy cores


class Case:
    """Arguments of one PerfTest process, and what must be left in which queue afterwards."""

    def __init__(self, arguments, left=None, queue_arguments=None, producing=True, consuming=True, timed=False):
        self.arguments, self.left, self.queue_arguments = arguments, left, queue_arguments
        self.producing, self.consuming, self.timed = producing, consuming, timed


def counted(name, arguments, count, **more):
    """`count` messages through a durable queue of its own that stays, and must be empty afterwards."""
    queue = f"perf.{RUN}.{name}"
    return [Case(f"-u {queue} -e {queue} -ad false -f persistent -C {count} -D {count} {arguments}", left={queue: 0}, **more)]


def backlog_then_drain():
    queue = f"perf.{RUN}.backlog"
    base = f"-u {queue} -e {queue} -ad false -f persistent"
    return [Case(f"{base} -x 1 -y 0 -C 20000 -c 500", left={queue: 20000}, consuming=False),
            Case(f"{base} -x 0 -y 2 -D 5000 -q 50 -A 10", left={queue: 10000}, producing=False),
            Case(f"{base} -x 0 -y 1 -D 10000 -q 1000 -A 100", left={queue: 0}, producing=False)]


CASES = {
    # the argument sets that the project promises
    "fanout": [Case("-p -e amq.fanout -u q1 -s 5 --autoack", timed=True)],
    "persistent-confirms": [Case("-x 2 -y 4 -c 200 -f persistent -q 100", timed=True)],
    "hundred-queues": [Case("-x 100 -y 100 --queue-pattern q-%d -qpf 1 -qpt 100 -r 20", timed=True)],
    "megabytes": [Case("-s 1000000 -c 10", timed=True)],
    # others of PerfTest's documentation
    "confirm-multi-ack": counted("multi", "-c 100 -A 50 -q 500", 30000),
    "backlog": backlog_then_drain(),
    "topic": counted("topic", "-t topic -k stocks.eu.de -c 100 -q 100", 10000),
    "mandatory-properties": counted("mandatory", "-f mandatory -c 50 -mp deliveryMode=2,contentType=text/plain,tenant=acme,timestamp=2026-01-01T00:00:00Z "
                                    "-q 100", 5000),
    "priorities": counted("priority", "-qa x-max-priority=10 -mp priority=7 -c 50 -q 10", 5000),
    "polling": counted("polling", "--polling -c 100", 3000),
    "transactions": counted("tx", "-m 50 -n 25 -q 100", 5000),
    "nack-drop": counted("nack", "--nack --requeue false -q 100", 5000),
    "many-channels": [Case(f"-x 4 -y 4 -X 25 -Y 25 -u perf.{RUN}.channels -C 50 -q 20 -c 10 -z 30 --exit-when idle")],
    "global-prefetch": counted("global", "-Q 50 -q 100 -c 100", 10000),
    "consumer-latency": [Case("-L 1000 -y 3 -q 10 -r 500", timed=True)],
    "variable": [Case("-vs 100:1 -vs 50000:1 -vr 2000:1 -vr 200:1 -c 100 -q 50", timed=True)],
}


def run_case(case, url, seconds, jars, log):
    """Runs PerfTest, returns nothing; raises AssertionError with the reason."""
    arguments = case.arguments.split() + (["-z", str(seconds)] if case.timed else [])
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars + "/*", "com.rabbitmq.perf.PerfTest", "-h", url, *arguments]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S + seconds)
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as expired:
        output, code = (expired.stdout or b"").decode(errors="replace"), "none: it hangs"
    log.write(f"$ perf-test {' '.join(arguments)}\n{output}\nexit code {code}\n\n")
    log.flush()
    assert code == 0, f"exit code {code}\n{output[-1500:]}"
    for trouble in ("Exception", "ERROR", "nacked: "):
        lines = [line for line in output.splitlines() if trouble in line and not re.search(r"nacked: 0 ", line)]
        assert not lines, "\n".join(lines[:5])
    rates = {kind: int(rate) for kind, rate in re.findall(r", (sending|receiving) rate avg: (\d+) msg/s", output)}
    if case.producing:
        assert rates.get("sending", 0) > 0, f"nothing was sent\n{output[-1500:]}"
    if case.consuming:
        assert rates.get("receiving", 0) > 0, f"nothing was received\n{output[-1500:]}"
    if case.left:
        check_left(case, url)
    return rates


def check_left(case, url):
    """Counts settle once the closed channels' acks are through, hence the short wait."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    end = time.monotonic() + 10
    while True:
        found = {queue: channel.queue_declare(queue, passive=True).method.message_count for queue in case.left}
        if found == case.left or time.monotonic() > end:
            break
        time.sleep(0.05)
    connection.close()
    assert found == case.left, f"left in the queues: {found}, expected {case.left}"


def clean(url):
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    for name in {queue for cases in CASES.values() for case in cases for queue in case.left or ()}:
        channel.queue_delete(name)
        channel.exchange_delete(name)
    try:
        channel.exchange_delete("direct", if_unused=True)       # PerfTest's default exchange; somebody else's run may need it
    except pika.exceptions.ChannelClosedByBroker:
        pass
    connection.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default=os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/%2F"))
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--jars", default=os.path.join(ROOT, ".cache", "java"))
    parser.add_argument("--log", default=os.devnull, help="the whole output of PerfTest")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE")
    options = parser.parse_args()
    if options.list:
        print("\n".join(CASES))
        return 0
    if not glob.glob(os.path.join(options.jars, "perf-test-*.jar")):
        sys.exit(f"perftest: no PerfTest in {options.jars}: run testing/setup.sh java")
    failed = 0
    with open(options.log, "a") as log:
        for name in options.cases or CASES:
            begin, rates, reason = time.monotonic(), [], None
            try:
                for case in CASES[name]:
                    rates.append(run_case(case, options.url, options.seconds, options.jars, log))
            except AssertionError as error:
                reason = error
                failed += 1
            elapsed = time.monotonic() - begin
            figures = "; ".join(f"sent {rate.get('sending', 0)}/s received {rate.get('receiving', 0)}/s" for rate in rates)
            print(f"{'FAIL' if reason else 'ok  '} {name:22} {elapsed:5.1f} s  {figures}", flush=True)
            if reason:
                print(f"     {reason}", flush=True)
    clean(options.url)
    ran = len(options.cases or CASES)
    print(f"perftest: {ran - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
