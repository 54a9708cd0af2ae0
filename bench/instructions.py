#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Exact instruction counts of malloc and free: `python3 bench/instructions.py --help`.

A script of the program `pairs` runs under valgrind's callgrind (which counts and does not replace
malloc) with two counts. What was executed outside the program's own object file is the allocator's
and the C library's; the difference of the two runs divided by the difference of the counts is what
one pair costs, free of start-up and of the loop. Unlike times, these figures repeat exactly.

With --gate it counts ours only, of a program and a library that are built, and fails for a script
that costs more than its limit. 77: valgrind is not installed.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import allocators
import build
import measure

SCRIPTS = {
    "small": "malloc(48), free",
    "batch": "1,000 x malloc(64), then 1,000 x free",
    "calloc": "calloc(1, 48), free",
    "calloc256": "calloc(1, 256), free",
    "realloc": "malloc(16), realloc to 40, 120, 1,000, free",
    "resize": "realloc in place",
    "usable": "malloc_usable_size",
    "null": "free(NULL)",
    "aligned": "posix_memalign(64), free",
    "operators": "operator new(48), sized delete",
    "mixed": "16 to 1,024 bytes at random, 512 live",
    "trim": "8 of 512 blocks to 64 KiB and malloc_trim(0), a 1,000th",
    "4k": "malloc(4096), free",
    "32k": "malloc(32768), free",
    "remote": "malloc(48), free by another thread",
}
# What ours may cost.
LIMITS = {"small": 29, "calloc": 41, "calloc256": 60, "realloc": 290, "resize": 29, "usable": 15,
          "null": 8, "trim": 220, "aligned": 45, "operators": 32, "4k": 34, "32k": 34, "remote": 54, "batch": 30}
SHORT, LONG = 20000, 120000
TIMEOUT = 120


def by_object(profile):
    """Instructions in a callgrind profile by the object file that they ran in, without its folder."""
    names, current, totals, skip = {}, "", Counter(), False
    for line in profile.splitlines():
        if line.startswith("ob="):
            key, _, name = line[3:].partition(" ")
            if name:
                names[key] = name
            current = names.get(key, key)
        elif line.startswith("cob="):
            # The object of a called function: defines the short name, says nothing on position.
            key, _, name = line[4:].partition(" ")
            if name:
                names[key] = name
        elif line.startswith("calls="):
            skip = True  # the next line is the callee's cost, counted where it was spent
        elif line[:1].isdigit() or line[:1] in "+-*":
            if skip:
                skip = False
            else:
                fields = line.split()
                totals[Path(current).name] += int(fields[1]) if len(fields) > 1 else 0
    return totals


def outside_program(profile, program):
    """Instructions in a callgrind profile that ran in other object files than the program."""
    totals = by_object(profile)
    return sum(totals.values()) - totals[program]


def count_once(pairs, library, script, count, directory):
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        out = Path(scratch) / "profile"
        environment = measure.clean_environment()
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", str(pairs),
                   script, str(count)]
        if library:
            environment["LD_PRELOAD"] = library
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True,
                                  timeout=TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            return None
        if done.returncode != 0 or not out.exists():
            return None
        return outside_program(out.read_text(), pairs.name)


def count_all(build_directory, directory, chosen, scripts, show):
    """Instructions per pair: {script: {allocator: number or None}}."""
    result = {}
    for script in scripts:
        result[script] = {}
        for allocator in chosen:
            show(f"instructions: {script}, {allocator.name}")
            ends = [count_once(build_directory / "pairs", allocator.library, script, n, directory)
                    for n in (SHORT, LONG)]
            result[script][allocator.name] = (
                None if None in ends else (ends[1] - ends[0]) / (LONG - SHORT))
    return result


def format_counts(counts):
    names = list(next(iter(counts.values())))
    width = max(len(f"{s}: {SCRIPTS[s]}") for s in counts) + 2
    lines = ["instructions per pair (callgrind, net of the loop)",
             " " * width + "".join(f"{n:>12}" for n in names)]
    for script, row in counts.items():
        cells = ["-" if row[n] is None else f"{row[n]:.1f}" for n in names]
        lines.append(f"{script + ': ' + SCRIPTS[script]:<{width}}"
                     + "".join(f"{c:>12}" for c in cells))
    return "\n".join(lines)


def gate(pairs):
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return 77
    wrong = 0
    for script, limit in LIMITS.items():
        ends = [count_once(pairs, None, script, n, None) for n in (SHORT // 10, LONG // 10)]
        cost = None if None in ends else (ends[1] - ends[0]) / ((LONG - SHORT) // 10)
        is_wrong = cost is None or cost > limit + 0.5
        wrong += is_wrong
        print(f"{script + ': ' + SCRIPTS[script]:50}{'-' if cost is None else f'{cost:.1f}':>8}"
              f" of {limit}{'  too many' if is_wrong else ''}")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description="Counts instructions per malloc/free pair.")
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT",
                        help=f"of {', '.join(SCRIPTS)} (default: all)")
    allocators.add_arguments(parser)
    build.add_arguments(parser)
    parser.add_argument("--gate", type=Path, metavar="PAIRS",
                        help="this build of the program, linked with ours, must keep the limits")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the counts there")
    options = parser.parse_args()
    if options.gate:
        return gate(options.gate)
    unknown = [s for s in options.scripts if s not in SCRIPTS]
    if unknown:
        sys.exit(f"bench: no script is called {unknown[0]}")
    chosen = allocators.from_arguments(options)
    allocators.need_tool("valgrind", "valgrind", "counting instructions")
    build.programs(options.build)
    options.out.mkdir(parents=True, exist_ok=True)
    counts = count_all(options.build, options.out, chosen, options.scripts or list(SCRIPTS),
                       lambda text: print(text, file=sys.stderr, flush=True))
    print(format_counts(counts))
    if options.json:
        options.json.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    ours = [row.get(allocators.OURS, 0) for row in counts.values()]
    return 1 if None in ours else 0


if __name__ == "__main__":
    sys.exit(main())
