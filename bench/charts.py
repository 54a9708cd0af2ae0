#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""SVG charts from results.json: grouped bars of time and of memory, relative to ours.

Drawn by matplotlib. Where Python has none, a virtual environment under the output directory gets
it from the package index, after saying so; without a network the charts are left out and the
tables stand.
"""

import json
import subprocess
import sys
from pathlib import Path

import report
from allocators import OURS

CHARTS = [("wall", "time"), ("rss", "memory")]
PER_ROW = 9
CUT = 4.0  # a bar beyond this ratio is cut off and labelled, or it would flatten all others
COLOURS = ["#1f6fb4", "#9a9a9a", "#d9822b", "#3f9c50", "#b0413e", "#7d5fb2", "#8c6b4f", "#c765a6"]


def draw(out):
    import matplotlib  # pylint: disable=import-outside-toplevel

    matplotlib.use("svg")
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    # The same input gives the same file, byte for byte.
    matplotlib.rcParams["svg.hashsalt"] = "bench"
    matplotlib.rcParams["font.size"] = 8
    for metric, name in CHARTS:
        draw_one(results, report.Table(results["runs"], metric), out / f"{name}.svg")
        print(f"bench: wrote {out / name}.svg")


def draw_one(results, table, path):
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel

    base = OURS if OURS in table.allocators else None
    programs = [p for p in table.programs if any(table.cells[p].values())]
    rows = [programs[i:i + PER_ROW] for i in range(0, len(programs), PER_ROW)]
    if not rows:
        sys.exit("bench: no charts: no run may be quoted")
    figure, axes = pyplot.subplots(len(rows), 1, figsize=(11, 2.1 * len(rows) + 0.8),
                                   squeeze=False)
    for row, axis in zip(rows, axes[:, 0]):
        draw_row(table, base, row, axis)
    summary = table.summary()
    labels = []
    for allocator in table.allocators:
        mean = summary[allocator]["to_ours" if base else "to_best_mean"]
        labels.append(f"{allocator} ({mean:.2f})" if mean else allocator)
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=COLOURS[i % len(COLOURS)])
               for i in range(len(labels))]
    figure.legend(handles, labels, ncol=len(labels), loc="upper center", frameon=False)
    machine = results["machine"]
    subject = f"{table.title.split(',')[0]} relative to {base or 'the best'}"
    figure.text(0.5, 0.005, f"{subject}, lower is better; "
                f"geometric means in brackets; median of {results['rounds']} rounds; "
                f"{machine['processors']} x {machine['processor']}, {machine['system']}",
                ha="center", fontsize=7)
    figure.tight_layout(rect=(0, 0.02, 1, 0.975))
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def draw_row(table, base, row, axis):
    count = len(table.allocators)
    width = 0.84 / count
    for i, allocator in enumerate(table.allocators):
        for x, program in enumerate(row):
            ratio = table.ratio(program, allocator, base)
            at = x - 0.42 + (i + 0.5) * width
            if ratio is None:
                axis.text(at, 0.05, "failed", rotation=90, ha="center", va="bottom", fontsize=5)
                continue
            axis.bar(at, min(ratio, CUT), width * 0.95, color=COLOURS[i % len(COLOURS)])
            if ratio > CUT:
                axis.text(at, CUT, f"{ratio:.0f}", ha="center", va="bottom", fontsize=5)
    axis.axhline(1, color="#444444", linewidth=0.6)
    axis.set_xlim(-0.6, PER_ROW - 0.4)
    axis.set_ylim(0, CUT * 1.08)
    axis.set_xticks(range(len(row)), row)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def python_with_matplotlib(out):
    """The path of a Python that has matplotlib, or an empty string."""
    own = out / "venv" / "bin" / "python"
    for candidate in (sys.executable, own):
        if Path(candidate).exists() and subprocess.run(
                [candidate, "-c", "import matplotlib"], capture_output=True,
                check=False).returncode == 0:
            return str(candidate)
    print(f"bench: the charts need matplotlib; installing it into {own.parent.parent}", flush=True)
    for command in ([sys.executable, "-m", "venv", own.parent.parent],
                    [own, "-m", "pip", "install", "--quiet", "matplotlib"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"bench: no charts: {(done.stderr or done.stdout).strip()[-400:]}",
                  file=sys.stderr)
            return ""
    return str(own)


def draw_in_environment(out):
    python = python_with_matplotlib(out)
    if python:
        subprocess.run([python, __file__, str(out)], check=True)


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "out/bench"))
