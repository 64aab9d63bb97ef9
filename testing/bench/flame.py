"""Where the broker's CPU goes during a workload: perf's samples as folded stacks, a flame graph and a list.

perf walks frame pointers, which every build here has (.cargo/config.toml).
"""

import collections
import html
import os
import re
import shutil
import subprocess
import sys
import threading
import zlib

import brokers
import bench
from brokers import ROOT, Missing
from workloads import WORKLOADS, named

SAMPLES_PER_SECOND = 999
TOP = 30
# The graph: pixels, and the narrowest frame that is drawn.
WIDTH, ROW, WIDTH_MIN = 1600, 17, 0.4


def record(running, seconds, data, run):
    """Samples the process while `run` makes the load; leaves out the first second, in which connections are made."""
    command = ["perf", "record", "-q", "-F", str(SAMPLES_PER_SECOND), "--call-graph", "fp", "-p", str(running.pid),
               "-o", str(data), "--", "sleep", str(max(seconds - 2, 1))]
    problems = []

    def sample():
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            problems.append(result.stderr.strip() or "perf record failed")

    sampler = threading.Timer(1.0, sample)
    sampler.start()
    figures = run()
    sampler.join()
    if problems:
        raise SystemExit(f"{problems[0]}\n(as another user than root, allow it: sysctl kernel.perf_event_paranoid=1)")
    return figures


def folded(data):
    """Samples as {stack from the outside in: count}."""
    script = subprocess.run(["perf", "script", "--no-inline", "-F", "comm,ip,sym", "-i", str(data)],
                            capture_output=True, text=True, check=True).stdout
    stacks = collections.Counter()
    for sample in script.split("\n\n"):
        lines = sample.strip("\n").splitlines()
        if len(lines) < 2:
            continue
        frames = [frame(line) for line in lines[1:]]
        stacks[(lines[0].strip(), *reversed(frames))] += 1
    return stacks


def frame(line):
    """The function of a line `address symbol`, without the hash that Rust appends."""
    symbol = line.strip().partition(" ")[2] or "[unknown]"
    return re.sub(r"::h[0-9a-f]{16}$", "", symbol).replace(";", ":")


def top(stacks):
    """The functions with the most samples of their own, and the share in which they take part."""
    total = sum(stacks.values())
    own, within = collections.Counter(), collections.Counter()
    for stack, count in stacks.items():
        own[stack[-1]] += count
        for function in set(stack[1:]):
            within[function] += count
    lines = [f"{'own':>7} {'within':>7}  of {total} samples"]
    lines += [f"{100 * count / total:6.2f}% {100 * within[name] / total:6.2f}%  {name}" for name, count in own.most_common(TOP)]
    return "\n".join(lines)


def tree(stacks):
    """Stacks merged from the outside in: name -> [samples, children]."""
    root = [0, {}]
    for stack, count in stacks.items():
        node = root
        node[0] += count
        for name in stack:
            node = node[1].setdefault(name, [0, {}])
            node[0] += count
    return root


def svg(stacks, title):
    """A flame graph: width is share of samples, the outermost function at the bottom; names show when pointed at."""
    root = tree(stacks)
    total, depth = root[0], max(map(len, stacks))
    height = (depth + 3) * ROW
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="monospace" font-size="11">',
           f'<rect width="100%" height="100%" fill="#fff"/><text x="4" y="14">{html.escape(title)}: {total} samples</text>']

    def draw(node, left, level):
        for name, child in sorted(node[1].items()):
            width = child[0] / total * WIDTH
            if width >= WIDTH_MIN:
                out.append(box(name, child[0] / total, left, height - (level + 1) * ROW, width))
                draw(child, left, level + 1)
            left += width

    draw(root, 0.0, 0)
    return "\n".join([*out, "</svg>", ""])


def box(name, share, left, upper, width):
    shade = zlib.crc32(name.encode())
    fill = f"rgb({205 + shade % 50},{90 + shade // 50 % 110},{shade // 7000 % 60})"
    letters = int(width / 6.7)
    label = f'<text x="{left + 2:.1f}" y="{upper + 12}">{html.escape(name[:letters])}</text>' if letters > 3 else ""
    return (f'<g><title>{html.escape(name)} ({100 * share:.2f} %)</title><rect x="{left:.1f}" y="{upper}" '
            f'width="{width:.1f}" height="{ROW - 1}" fill="{fill}"/>{label}</g>')


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in {workload.name for workload in WORKLOADS}:
        raise SystemExit("usage: testing/bench/flame.sh WORKLOAD, one of: " + ", ".join(w.name for w in WORKLOADS))
    if shutil.which("perf") is None:
        raise SystemExit("perf is missing: apt-get install linux-perf (Debian) or linux-tools-generic (Ubuntu)")
    [workload] = named(sys.argv[1:])
    seconds = int(os.environ.get("SECONDS_PER_TEST", "10"))
    broker = os.environ.get("BROKER", "warren")
    start = {"warren": brokers.warren, "null": brokers.null}.get(broker)
    if start is None:
        raise SystemExit("BROKER is warren or null")
    tools = brokers.tools()
    stem = ROOT / "bench-results" / f"{workload.name}-{broker}"
    stem.parent.mkdir(exist_ok=True)
    data = stem.with_suffix(".perf")
    run = bench.perf_test if workload.tool == "perf-test" else bench.load
    try:
        with start(tools, workload) as running:
            figures = record(running, seconds, data, lambda: run(tools, running, workload, seconds))
            # While the process is there, perf finds its binary even if it is rebuilt meanwhile.
            stacks = folded(data)
    except Missing as reason:
        raise SystemExit(str(reason)) from None
    finally:
        data.unlink(missing_ok=True)
    if not stacks:
        raise SystemExit("perf saw no samples: the broker was idle, or sampling is not allowed here")
    lines = sorted(f"{';'.join(stack)} {count}" for stack, count in stacks.items())
    stem.with_suffix(".folded").write_text("\n".join(lines) + "\n")
    stem.with_suffix(".svg").write_text(svg(stacks, f"{workload.name}, {broker}"))
    listed = top(stacks)
    stem.with_suffix(".top").write_text(listed + "\n")
    print(listed)
    bench.say(f"{figures['received_per_s']:,.0f} msg/s, {figures['broker']['cpu_us_per_message']:.3f} us/msg; "
              f"graph in {stem.relative_to(ROOT)}.svg")


if __name__ == "__main__":
    main()
