"""Draws docs/storage.svg from what `scale.py curves` has kept: plot_scale.py bench-results/scale-....json

Four panels: memory and restart time, against queues and against messages in one queue. Both axes are logarithmic.
"""

import json
import math
import sys
from pathlib import Path

from brokers import ROOT
from plot import text

# Pixels.
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 170, 70, 40, 90
COLOUR = "#d9480f"
PANELS = [("queues", "rss_bytes", "memory beyond an empty node, MiB", 2**20), ("messages", "rss_bytes", "memory beyond an empty node, MiB", 2**20),
          ("queues", "restart_s", "until clients are accepted after kill -9, s", 1), ("messages", "restart_s", "until clients are accepted after kill -9, s", 1)]
AXES = {"queues": "durable queues", "messages": "messages of 1 KB in one queue"}


def decades(values):
    """The powers of ten around values."""
    return math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))


def panel(x, y, points, title, axis):
    """One plot of points (x, y) at a place."""
    columns, rows = decades([one for one, _ in points]), decades([max(one, 0.001) for _, one in points])
    if rows[0] == rows[1]:
        rows = rows[0], rows[1] + 1
    def at(value, ends, length):
        return (math.log10(max(value, 10 ** ends[0])) - ends[0]) / (ends[1] - ends[0]) * length
    out = [f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#adb5bd"/>',
           text(x, y - 8, title), text(x + WIDTH / 2, y + HEIGHT + 34, axis, "middle")]
    for power in range(columns[0], columns[1] + 1):
        out.append(text(x + at(10 ** power, columns, WIDTH), y + HEIGHT + 16, f"{10 ** power:,}", "middle"))
    for power in range(rows[0], rows[1] + 1):
        out.append(text(x - 6, y + HEIGHT - at(10.0 ** power, rows, HEIGHT) + 4, f"{10.0 ** power:g}", "end"))
    places = [(x + at(one, columns, WIDTH), y + HEIGHT - at(other, rows, HEIGHT)) for one, other in points]
    line = " ".join(f"{one:.1f},{other:.1f}" for one, other in places)
    out.append(f'<polyline points="{line}" fill="none" stroke="{COLOUR}" stroke-width="2"/>')
    for (one, other), (_, value) in zip(places, points):
        out.append(f'<circle cx="{one:.1f}" cy="{other:.1f}" r="3" fill="{COLOUR}"/>' + text(one, other - 7, f"{value:.3g}", "middle"))
    return out


def main():
    curves = json.loads(Path(sys.argv[1]).read_text())["tests"]["curves"]["warren"]
    width, height = 2 * (WIDTH + GAP) + LEFT, 2 * (HEIGHT + GAP) + TOP
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for number, (what, figure, title, unit) in enumerate(PANELS):
        x, y = LEFT + number % 2 * (WIDTH + GAP), TOP + number // 2 * (HEIGHT + GAP)
        points = [(one["count"], max(one[figure] / unit, 0.001)) for one in curves[what]]
        out += panel(x, y, points, title, AXES[what])
    (ROOT / "docs" / "storage.svg").write_text("\n".join([*out, "</svg>", ""]))


if __name__ == "__main__":
    main()
