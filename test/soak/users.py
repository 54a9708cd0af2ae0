#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the programs of this folder on the library for as long as told, and says whether they stay flat.

  users.py PROGRAMS LIBRARY [--minutes N] [--interval SECONDS] [--only NAME] [--threads N] [--out FOLDER]

PROGRAMS is the folder of mimalloc-soak-cache, -web and -compiler, which behave as a database's cache, a web
server with a thread for each request, and a compiler that stays. What they keep they make first. LIBRARY
is preloaded; "" for the system's malloc. Each runs for its share of the minutes. Of the rows that it
prints, the first fifth counts as its start, and more of them until so many operations are done that blocks
lie as they do for good (WARM); of the rest, the slopes of resident memory and of the median time of an
operation are told in percent an hour, by the medians of the first and the last third. Where a busy
machine left too little of the rest, nothing is said of that program.

Memory may grow by 1 % an hour, and by 5 % for what the load itself sways; times are told only, as they
depend on what else the machine does. Rows are kept and plotted: OUT/NAME.txt and OUT/NAME.svg.
Exit status 0: all are flat; 1: memory grew, or a program failed; 77: one had too few operations to judge.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

NAMES = ("cache", "web", "compiler")
WARM = {"cache": 200000, "web": 150000, "compiler": 2000}
LEAST_ROWS = 10
PERCENT_AN_HOUR = 1
SWAY_PERCENT = 5
WIDTH, HEIGHT, LEFT = 760, 200, 70


def run(program, library, seconds, options):
    """[(seconds, bytes, operations, median, slow, longest)]"""
    environment = dict(os.environ, **({"LD_PRELOAD": library} if library else {}))
    command = [program, str(seconds), "1", str(options.threads), str(options.interval)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        print(f"{program.name}: status {done.returncode}")
        return None
    return [tuple(float(word) for word in line.split()) for line in done.stdout.splitlines()]


def after_start(rows, warm):
    done = 0
    for i, row in enumerate(rows):
        if done >= warm and i >= len(rows) // 5:
            return rows[i:]
        done += row[2]
    return []


def growth(steady, column):
    """Percent from the first third to the last, and the hours between."""
    third = max(len(steady) // 3, 1)
    first = statistics.median(row[column] for row in steady[:third])
    last = statistics.median(row[column] for row in steady[-third:])
    hours = (steady[-1][0] - steady[0][0]) * 2 / 3 / 3600
    return 100 * (last - first) / max(first, 1), hours


def curve(rows, column, most, top, color):
    end = rows[-1][0]
    points = " ".join(f"{LEFT + WIDTH * row[0] / end:.1f},{top + HEIGHT - HEIGHT * row[column] / most:.1f}"
                      for row in rows)
    return f'<polyline points="{points}" fill="none" stroke="{color}"/>'


def axis(top, most, unit, text):
    return "".join(f'<text x="{LEFT - 6}" y="{top + HEIGHT - HEIGHT * k / 4 + 4:.0f}" text-anchor="end">'
                   f"{most * k / 4 / unit:.3g}</text>" for k in range(5)) + (
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>'
        f'<text x="{LEFT}" y="{top - 6}">{text}</text>')


def plot(name, rows, path):
    memory = 1.1 * max(row[1] for row in rows)
    times = 1.1 * max(max(row[4] for row in rows), 1)
    second = HEIGHT + 90
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + LEFT + 20}" height="{2 * HEIGHT + 120}" '
        'font-family="sans-serif" font-size="12">'
        + axis(40, memory, 1e6, f"{name}: resident memory, MB, over {rows[-1][0] / 60:.1f} minutes")
        + curve(rows, 1, memory, 40, "#06c")
        + axis(second, times, 1e3, "time of an operation, µs: median (green), 99 of 100 (red)")
        + curve(rows, 4, times, second, "#c30") + curve(rows, 3, times, second, "#083") + "</svg>\n")


def judge(name, rows):
    """A row of the table; whether memory stayed, or None where nobody can say."""
    steady = after_start(rows, WARM[name])
    if len(steady) < LEAST_ROWS:
        print(f"| {name} | {rows[-1][0] / 60:.1f} | {int(sum(row[2] for row in rows))} | | | | | "
              "too few operations |", flush=True)
        return None
    grown, hours = growth(steady, 1)
    slower, _ = growth(steady, 3)
    allowed = PERCENT_AN_HOUR * hours + SWAY_PERCENT
    is_flat = grown <= allowed
    memory = statistics.median(row[1] for row in steady) / 1e6
    print(f"| {name} | {rows[-1][0] / 60:.1f} | {int(sum(row[2] for row in rows))} | {memory:.1f} | "
          f"{max(row[1] for row in rows) / 1e6:.1f} | {grown:+.1f} % | {slower:+.1f} % | "
          f"{'yes' if is_flat else 'NO'} |", flush=True)
    return is_flat


def main():
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"), add_help=False)
    parser.add_argument("-h", "--help", action="help")
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("library")
    parser.add_argument("--minutes", type=float, default=360)
    parser.add_argument("--interval", type=float, default=0)
    parser.add_argument("--only", choices=NAMES)
    parser.add_argument("--threads", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    options = parser.parse_args()
    names = [options.only] if options.only else NAMES
    seconds = 60 * options.minutes / len(names)
    options.interval = options.interval or max(seconds / 200, 1)
    options.out.mkdir(parents=True, exist_ok=True)
    verdicts = []
    print("| program | minutes | operations | MB | most MB | memory grew | times grew | flat |\n"
          "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for name in names:
        rows = run(options.programs / f"mimalloc-soak-{name}", options.library, seconds, options)
        if not rows:
            verdicts.append(False)
            continue
        (options.out / f"{name}.txt").write_text(
            "\n".join(" ".join(f"{value:.10g}" for value in row) for row in rows) + "\n")
        plot(name, rows, options.out / f"{name}.svg")
        verdicts.append(judge(name, rows))
    return 1 if False in verdicts else 77 if None in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
