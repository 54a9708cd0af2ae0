#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the heap profiler costs while it is on: `python3 bench/profiler.py`.

Every program of the suite runs with the profiler off, off once more, which shows what is chance, and at
each of several rates. They take turns, each round starting with another one; of the rounds the least
processor time and the median of the peak memory count. Prints Markdown tables: geometric means and
the worst programs relative to off, and each program.
"""

import argparse
import json
import statistics
import sys
from fnmatch import fnmatch
from pathlib import Path

import allocators
import build
import price
import suite

OFF, CONTROL = "off", "off, again"
RATES = ("64KiB", "512KiB", "2MiB")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM",
                        help="names or patterns, or a group: work, programs, stress (default: all)")
    parser.add_argument("--ours", default=allocators.default_library(), type=Path, metavar="FILE",
                        help="the library (default: out/release/libmimalloc.so)")
    parser.add_argument("--rates", default=",".join(RATES), metavar="A,B",
                        help=f"mean bytes between samples (default: {','.join(RATES)})")
    parser.add_argument("-n", "--runs", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument("--scale", type=float, default=0.2,
                        help="a factor to the amounts of work (default: 0.2)")
    parser.add_argument("--results", type=Path, metavar="FILE",
                        help="keeps the raw runs there; those of a run before stay and count, too")
    build.add_arguments(parser)
    return parser.parse_args()


def chosen_programs(patterns):
    return [p for p in suite.PROGRAMS if not patterns or
            any(p.group == pattern or fnmatch(p.name, pattern) for pattern in patterns)]


def percent(ratio):
    return f"{(ratio - 1) * 100:+.1f} %"


def summary(table, names, groups):
    """A row for each rate: means of time and memory, and the programs that are worst off."""
    lines = ["| on, mean distance | time, all programs | real programs | the worst real program | "
             "the worst of all | memory, all | most MiB more |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    real = [p for p in table if groups[p] == "programs"]
    for name in names:
        cells = [percent(price.mean(table, name, OFF, 0, table))]
        cells.append(percent(price.mean(table, name, OFF, 0, real)) if real else "")
        for some in (real, list(table)):
            worst = max(some, key=lambda p: table[p][name][0] / table[p][OFF][0], default=None)
            cells.append("" if worst is None else
                         f"{worst} {percent(table[worst][name][0] / table[worst][OFF][0])}")
        cells.append(percent(price.mean(table, name, OFF, 1, table)))
        most = max(table, key=lambda p: table[p][name][1] - table[p][OFF][1])
        cells.append(f"{most} {table[most][name][1] - table[most][OFF][1]:.1f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def by_program(table, names):
    lines = ["| program | off, s | MiB | " + " | ".join(f"{n} | MiB more" for n in names) + " |",
             "| --- | ---: | ---: |" + " ---: | ---: |" * len(names)]
    for program, row in table.items():
        cells = [f"{percent(row[n][0] / row[OFF][0])} | {row[n][1] - row[OFF][1]:.1f}"
                 for n in names]
        lines.append(f"| {program} | {row[OFF][0]:.2f} | {row[OFF][1]:.1f} | "
                     + " | ".join(cells) + " |")
    return "\n".join(lines)


def read_results(path):
    return json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else {}


def main():
    options = parse_arguments()
    options.out, options.build = options.out.resolve(), options.build.resolve()
    programs = chosen_programs(options.programs)
    if not programs:
        sys.exit("profiler: no program is called so")
    allocators.install(set().union(*(p.missing() for p in programs)), "the programs to be measured")
    build.programs(options.build)
    library = allocators.existing(options.ours)
    rates = options.rates.split(",")
    variants = {OFF: price.Library(library, {}), CONTROL: price.Library(library, {})}
    for rate in rates:
        variants[rate] = price.Library(library, {"MIMALLOC_PROF": "1", "MIMALLOC_PROF_RATE": rate})
    options.scale, scale = 1.0, options.scale
    runs = read_results(options.results)
    for program in programs:
        print(f"{program.name}: {options.runs} rounds", file=sys.stderr, flush=True)
        for name, own in price.measure_program(options, program, scale, variants).items():
            runs.setdefault(program.name, {}).setdefault(name, []).extend(own)
        if options.results:
            options.results.write_text(json.dumps(runs), encoding="utf-8")
    known = {p.name: p.group for p in suite.PROGRAMS}
    table = price.summarise({p: runs[p] for p in known if p in runs})
    names = [CONTROL, *rates]
    print(summary(table, names, known), by_program(table, names), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
