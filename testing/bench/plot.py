"""Makes the plot and the table of docs/performance.md from runs of `make bench`: plot.py RESULT.json... > table.md

Several runs are merged by their medians, value by value. The plot goes to docs/performance.svg: broker CPU per message of
each broker, on a logarithmic scale, because a factor of a hundred lies between them.
"""

import json
import math
import statistics
import sys
from pathlib import Path

from brokers import ROOT
from workloads import WORKLOADS

BROKERS = {"warren": ("Warren", "#d9480f"), "null": ("null broker (floor)", "#adb5bd"), "rabbitmq": ("RabbitMQ 4.3", "#1864ab")}
# Pixels.
LEFT, PLOT, RIGHT, BAR, GAP, TOP = 110, 620, 90, 13, 16, 46
TICKS = [0.01, 0.1, 1, 10, 100]


def figures_of(run, workload, broker):
    """The compared figures, flat; None if it was not measured."""
    found = run["workloads"].get(workload, {}).get(broker)
    if found is None:
        return None
    latency = found["latency_us"] or {}
    return {
        "received_per_s": found["received_per_s"], "cpu": found["broker"]["cpu_us_per_message"],
        "rss_mib": found["broker"]["rss_kib"] / 1024, "p50": latency.get("p50"), "p99": latency.get("p99"),
    }


def medians(runs, workload, broker):
    """The median of each figure over the runs that have it."""
    found = [figures for figures in (figures_of(run, workload, broker) for run in runs) if figures]
    if not found:
        return None
    known = {name: [figures[name] for figures in found if figures[name] is not None] for name in found[0]}
    return {name: statistics.median(values) if values else None for name, values in known.items()}


def x_of(value):
    """Where a value lies on the logarithmic axis."""
    first, last = math.log10(TICKS[0]), math.log10(TICKS[-1])
    share = (math.log10(max(value, TICKS[0])) - first) / (last - first)
    return LEFT + PLOT * min(max(share, 0), 1)


def text(x, y, content, anchor="start", **more):
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{attributes}>{content}</text>'


def legend():
    """Names of the brokers with their colours, in one line."""
    out, x = [], LEFT
    for name, colour in BROKERS.values():
        out += [f'<rect x="{x}" y="26" width="10" height="10" fill="{colour}"/>', text(x + 15, 35, name)]
        x += 35 + 7 * len(name)
    return out


def svg(rows):
    """Bars in groups of one workload."""
    group = BAR * len(BROKERS) + GAP
    height = TOP + group * len(rows) + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + PLOT + RIGHT}" height="{height}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="#fff"/>',
           text(LEFT, 16, "Broker CPU per message, microseconds (less is better; each line is ten times the one before)", font_weight="bold"),
           *legend()]
    for tick in TICKS:
        x = x_of(tick)
        out += [f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{height - 24}" stroke="#dee2e6"/>', text(x, height - 8, tick, "middle")]
    for at, (workload, figures) in enumerate(rows):
        upper = TOP + group * at + GAP / 2
        out.append(text(LEFT - 8, upper + group / 2 - 2, workload, "end"))
        for nth, (broker, (_, colour)) in enumerate(BROKERS.items()):
            if figures.get(broker):
                cpu, y = figures[broker]["cpu"], upper + BAR * nth
                out += [f'<rect x="{LEFT}" y="{y:.1f}" width="{x_of(cpu) - LEFT:.1f}" height="{BAR - 2}" fill="{colour}"/>',
                        text(x_of(cpu) + 4, y + BAR - 4, f"{cpu:.2f}", font_size="11")]
    return "\n".join([*out, "</svg>", ""])


def number(value, digits=0):
    return "-" if value is None else f"{value:,.{digits}f}"


def table(rows):
    """The figures as Markdown."""
    lines = ["| workload | broker | received/s | p50 us | p99 us | CPU us/msg | RSS MiB | RabbitMQ CPU / Warren CPU | Warren CPU / null CPU |",
             "|---|---|---:|---:|---:|---:|---:|---:|---:|"]
    for workload, figures in rows:
        for broker, (name, _) in BROKERS.items():
            found = figures.get(broker)
            if not found:
                continue
            own = found["cpu"] if broker == "warren" else None
            def ratio(other, above):
                there = figures.get(other)
                if not own or not there:
                    return ""
                return number(there["cpu"] / own if above else own / there["cpu"], 1)
            lines.append(f"| {workload if own else ''} | {name} | {number(found['received_per_s'])} | {number(found['p50'])} | {number(found['p99'])} "
                         f"| {number(found['cpu'], 2)} | {number(found['rss_mib'])} | {ratio('rabbitmq', True)} | {ratio('null', False)} |")
    return "\n".join(lines)


def main():
    if len(sys.argv) < 2:
        raise SystemExit("usage: testing/bench/plot.py bench-results/RUN.json...")
    runs = [json.loads(Path(name).read_text()) for name in sys.argv[1:]]
    rows = []
    for workload in WORKLOADS:
        figures = {broker: medians(runs, workload.name, broker) for broker in BROKERS}
        if any(figures.values()):
            rows.append((workload.name, figures))
    (ROOT / "docs" / "performance.svg").write_text(svg(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
