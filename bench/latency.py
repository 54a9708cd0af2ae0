#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Percentiles of single calls of malloc and free, against other allocators: `--help`.

The program latency times every call. Allocators take turns round by round; a cell is the least of
all rounds, since what interrupts a thread on a busy machine only adds. `alone` are calls of more
than 50 microseconds in which the system did not switch the thread and had no page fault to serve,
of all rounds; see bench/programs/latency.c."""

import argparse
import json
import sys
from pathlib import Path

import allocators
import build
import measure
from real import Job

POINTS = ("p99.9", "p99.99", "p99.999")
# threads: calls of each kind per thread
CALLS = {1: 2000000, 2: 1000000, 8: 300000}


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    allocators.add_arguments(parser)
    build.add_arguments(parser)
    parser.add_argument("-n", "--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, action="append", help="one of 1, 2, 8")
    parser.add_argument("--add", action="store_true",
                        help="to the rounds that are in latency.json already")
    return parser.parse_args()


def run_all(options, chosen, runs, kept):
    for number in range(options.rounds):
        for threads in options.threads or CALLS:
            turn = number % len(chosen)
            for allocator in chosen[turn:] + chosen[:turn]:
                job = Job([options.build / "latency", threads, CALLS[threads]], "latency:")
                figures = measure.run(options.build / "launch", job, allocator.library, options.out)
                if "failed" in figures:
                    sys.exit(f"bench: {allocator.name}, {threads} threads: {figures['failed']}")
                runs.append({"allocator": allocator.name, "threads": threads,
                             "figures": {k: v[0] for k, v in figures["figures"].items()}})
        kept.write_text(json.dumps(runs) + "\n", encoding="utf-8")


def least(runs, threads, name, allocator):
    values = [run["figures"][name] for run in runs
              if run["threads"] == threads and run["allocator"] == allocator]
    return min(values) if values else None


def rows_of(runs, names):
    """[(threads, call, point, {allocator: ns})]"""
    return [(threads, call, point,
             {a: least(runs, threads, f"{call}-{point}", a) for a in names})
            for threads in sorted({run["threads"] for run in runs})
            for call in ("malloc", "free") for point in POINTS]


def beyond(row, ours=allocators.OURS):
    """How far ours is above the least of a row: 1.0 is the least."""
    return row[3][ours] / min(v for v in row[3].values() if v is not None)


def table(runs, names):
    lines = ["| threads, call | " + " | ".join(names) + " | ours to the least |",
             "| --- " + "| ---: " * (len(names) + 1) + "|"]
    for row in rows_of(runs, names):
        cells = ["-" if row[3][a] is None else f"{row[3][a] / 1000:.2f}" for a in names]
        lines.append(f"| {row[0]}, {row[1]}, {row[2][1:]} % | " + " | ".join(cells)
                     + f" | {beyond(row):.2f} |")
    for threads in sorted({run["threads"] for run in runs}):
        cells = []
        for allocator in names:
            alone = [run["figures"]["malloc-alone"] + run["figures"]["free-alone"] for run in runs
                     if run["threads"] == threads and run["allocator"] == allocator]
            cells.append(f"{sum(alone):.0f}")
        lines.append(f"| {threads}, alone beyond 50 µs, calls | " + " | ".join(cells) + " | |")
    return "\n".join(lines)


def main():
    options = parse()
    chosen = allocators.from_arguments(options)
    options.out, options.build = options.out.resolve(), options.build.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    build.programs(options.build)
    kept = options.out / "latency.json"
    runs = json.loads(kept.read_text()) if options.add and kept.exists() else []
    run_all(options, chosen, runs, kept)
    print("microseconds; " + ", ".join(f"{a.name}: {allocators.version(a)}" for a in chosen))
    print(table(runs, [a.name for a in chosen]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
