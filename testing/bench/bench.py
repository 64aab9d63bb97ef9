"""Runs the workloads against each broker in turn and tabulates rate, latency, CPU per message and memory.

CPU per message is user and system time of the broker's process over the measured time, divided by messages received:
the figure that says most on a small machine, where a slow client hides a fast broker.
"""

import contextlib
import datetime
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import brokers
import routing
from brokers import ROOT, Absent, Missing
from workloads import WORKLOADS, named

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
# Beyond the measured seconds: connecting a thousand times and deleting a thousand queues.
PATIENCE_SECONDS = 180


def say(text):
    print(text, file=sys.stderr, flush=True)


def load(tools, running, workload, seconds):
    """Runs `warren perf` and gives its JSON."""
    command = [*tools.load, "perf", "-h", running.uri, "-d", f"bench-{workload.name}", *workload.args, "-z", str(seconds),
               "-dcr", "--watch-pid", str(running.pid), "--json", "--quiet"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=seconds + PATIENCE_SECONDS, check=False)
    if result.returncode != 0:
        raise Missing(f"failed: {(result.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
    return json.loads(result.stdout)


def process_use(pid):
    """CPU seconds and resident KiB of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    resident = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS, int(resident[1])


def perf_test(tools, running, workload, seconds):
    """Runs RabbitMQ's PerfTest and gives its figures in the shape of `warren perf`'s."""
    peer = os.environ.get("PEER")
    if not peer:
        raise Missing("no PerfTest: set PEER to a command that runs it (see testing/bench/run.sh)")
    probe = subprocess.run([peer, "perf-test", "--version"], capture_output=True, check=False)
    if probe.returncode != 0:
        raise Missing(f"PerfTest is not installed ({peer} install perf-test)")
    topology = [*tools.load, "perf", "-h", running.uri, *workload.topology, "--topology-only"]
    # PerfTest would declare its queue transient, which RabbitMQ 4.3 refuses.
    subprocess.run([*topology, "declare"], check=True, capture_output=True)
    try:
        cpu_before, _ = process_use(running.pid)
        command = [peer, "perf-test", "-h", running.uri, *workload.args, "-z", str(seconds)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=seconds + PATIENCE_SECONDS, check=False)
        cpu_after, rss = process_use(running.pid)
    finally:
        subprocess.run([*topology, "delete"], check=False, capture_output=True)
    return perf_test_figures(result, seconds, cpu_after - cpu_before, rss)


def perf_test_figures(result, seconds, cpu_s, rss_kib):
    text = result.stdout + result.stderr
    rates = {what: re.search(rf"{what} rate avg: (\d+)", text) for what in ("sending", "receiving")}
    if not all(rates.values()):
        raise Missing(f"PerfTest failed: {(text.strip().splitlines() or ['it said nothing'])[-1]}")
    sent, received = (int(rate[1]) for rate in rates.values())
    latency = re.search(r"consumer latency min/median/75th/95th/99th \d+/(\d+)/\d+/\d+/(\d+) ", text)
    percentiles = {"p50": float(latency[1]), "p99": float(latency[2])} if latency else None
    return {
        "seconds": seconds, "sent_per_s": sent, "received_per_s": received, "latency_us": percentiles,
        "broker": {"cpu_us_per_message": cpu_s * 1e6 / max(received * seconds, 1), "cpu_s": cpu_s, "rss_kib": rss_kib},
    }


def measure(tools, workload, contenders, seconds):
    """One workload against every broker; brokers that are not there are told once and left out."""
    figures = {}
    for name in list(contenders):
        try:
            with contenders[name](tools, workload) as running:
                run = perf_test if workload.tool == "perf-test" else load
                figures[name] = run(tools, running, workload, seconds)
        except Missing as reason:
            say(f"  {name:9} skipped: {reason}")
            if isinstance(reason, Absent):
                del contenders[name]
            continue
        found = figures[name]
        say(f"  {name:9} {found['received_per_s']:12,.0f} msg/s  {found['broker']['cpu_us_per_message']:8.3f} us/msg")
    return figures


def measure_routing(tools, workload, contenders):
    """The routing workload, step by step, against every broker that routes."""
    figures = {}
    for name in [name for name in contenders if name != "null"]:
        say(f"  {name}")
        try:
            with contenders[name](tools, workload) as running, contextlib.ExitStack() as stack:
                uri = f"{running.uri}/%2F"
                if name == "rabbitmq":
                    stack.enter_context(routing.vhost_of(brokers.peer_ctl))
                    uri = f"{running.uri}/{routing.VHOST}"
                figures[name] = routing.run(uri, lambda pid=running.pid: process_use(pid), say)
        except Missing as reason:
            say(f"  {name:9} skipped: {reason}")
    return figures


def ratio(above, below):
    return f"{above / below:.2f}" if above is not None and below else "-"


def row(workload, name, figures):
    """One line of the table: figures of one broker and how they compare."""
    found = figures[name]

    def of(other, *path):
        return value(figures.get(other), *path)

    latency = found["latency_us"] or {}
    cpu = found["broker"]["cpu_us_per_message"]
    return [
        workload.name, name, f"{found['sent_per_s']:,.0f}", f"{found['received_per_s']:,.0f}",
        f"{latency['p50']:,.0f}" if latency else "-", f"{latency['p99']:,.0f}" if latency else "-",
        f"{cpu:.3f}", f"{found['broker']['rss_kib'] / 1024:.0f}",
        ratio(found["received_per_s"], of("rabbitmq", "received_per_s")),
        ratio(of("rabbitmq", "broker", "cpu_us_per_message"), cpu),
        ratio(cpu, of("null", "broker", "cpu_us_per_message")),
    ]


def value(figures, *path):
    for key in path:
        figures = figures and figures.get(key)
    return figures


HEADINGS = ["workload", "broker", "sent/s", "received/s", "p50 us", "p99 us", "CPU us/msg", "RSS MiB", "rate / RabbitMQ",
            "RabbitMQ CPU / CPU", "CPU / null"]


def table(results):
    """All figures as a Markdown table."""
    rows = [row(workload, name, figures) for workload, figures in results for name in figures]
    widths = [max(len(cells[column]) for cells in [HEADINGS, *rows]) for column in range(len(HEADINGS))]
    def line(cells):
        padded = [cell.ljust(width) if column < 2 else cell.rjust(width)
                  for column, (cell, width) in enumerate(zip(cells, widths))]
        return f"| {' | '.join(padded)} |"
    rule = ["-" * width if column < 2 else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    return "\n".join([line(HEADINGS), line(rule), *map(line, rows)])


def machine():
    """Where the figures come from."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "commit": commit.stdout.strip(), "cpu": cpu[1] if cpu else platform.machine(), "cores": os.cpu_count(),
        "kernel": platform.release(), "load_average_before": os.getloadavg()[0],
    }


def words(name):
    return [word for word in os.environ.get(name, "").split(",") if word]


def main():
    if "--list" in sys.argv[1:]:
        print("\n".join(f"{workload.name:16} {workload.what}" for workload in WORKLOADS))
        return
    seconds = int(os.environ.get("SECONDS_PER_TEST", "10"))
    workloads = named(words("WORKLOADS"))
    rabbitmq = brokers.Rabbitmq()
    every = {"warren": brokers.warren, "null": brokers.null, "rabbitmq": rabbitmq}
    contenders = {name: every[name] for name in every if name in (words("BROKERS") or every)}
    tools = brokers.tools()
    where = machine()
    if where["load_average_before"] > 0.5:
        say(f"this machine is busy (load {where['load_average_before']:.1f}): trust CPU per message, not rates and latency")
    results, routed = [], {}
    with contextlib.ExitStack() as stack:
        stack.callback(rabbitmq.stop)
        for workload in workloads:
            if workload.tool == "routing":
                say(f"{workload.name}: {workload.what}")
                routed = measure_routing(tools, workload, contenders)
                continue
            say(f"{workload.name}: {workload.what}, {seconds} s")
            results.append((workload, measure(tools, workload, contenders, seconds)))
    if not routed and not any(figures for _, figures in results):
        raise SystemExit("nothing could be measured")
    report(where, seconds, results, routed)


def report(where, seconds, results, routed):
    folder = ROOT / "bench-results"
    folder.mkdir(exist_ok=True)
    stem = folder / datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    content = {"machine": where, "seconds": seconds, "workloads": {w.name: figures for w, figures in results}, "routing": routed}
    stem.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")
    text = "\n\n".join(([table(results)] if results else []) + ([routing.table(routed)] if routed else []))
    stem.with_suffix(".md").write_text(text + "\n")
    print(text)
    say(f"kept in {stem.relative_to(ROOT)}.json and .md")


if __name__ == "__main__":
    main()
