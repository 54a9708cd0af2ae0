#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the benchmark suite and reports on it: `python3 bench/run.py --help`.

Within each program the allocators take turns, round by round, each round starting with another
one, so that a slow minute of the machine falls on all of them. Raw runs go to
out/bench/results.json after every program; the table is printed at the end and kept beside it.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from datetime import datetime, timezone
from fnmatch import fnmatch
from pathlib import Path

import allocators
import measure
import report
import suite

ROOT = allocators.ROOT


def parse_arguments():
    parser = argparse.ArgumentParser(description="Compares memory allocators on the suite.")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM",
                        help="names or patterns such as 'larson*' (default: all)")
    parser.add_argument("--list", action="store_true", help="list the programs and stop")
    parser.add_argument("-a", "--allocators", metavar="A,B",
                        help="comma-separated; known: ours, glibc, "
                        + ", ".join(n for n, _, _ in allocators.PEERS) + " and each --peer")
    parser.add_argument("--ours", default=allocators.default_library(), metavar="LIB",
                        help="our library (default: out/release/libmimalloc.so)")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=LIB",
                        help="one more library to compare; may be repeated")
    parser.add_argument("-n", "--runs", type=int, help="rounds (default 5; quick 2, smoke 1)")
    parser.add_argument("--scale", type=float, help="factor on the amount of work")
    parser.add_argument("--quick", action="store_true", help="a third of the work, 2 rounds")
    parser.add_argument("--smoke", action="store_true",
                        help="a fiftieth of the work, 1 round, ours and glibc: fails on crashes")
    parser.add_argument("--metric", choices=sorted(report.METRICS), action="append",
                        help="tables to print (default: wall and rss)")
    parser.add_argument("--out", default=ROOT / "out" / "bench", type=Path, metavar="DIR")
    parser.add_argument("--build", default=ROOT / "out" / "bench-build", type=Path, metavar="DIR")
    return parser.parse_args()


def settle_defaults(options):
    default_runs, default_scale = (1, 0.02) if options.smoke else (2, 0.3) if options.quick else (
        5, 1.0)
    options.runs = options.runs or default_runs
    options.scale = options.scale or default_scale
    options.metric = options.metric or ["wall", "rss"]
    options.peer = [tuple(peer.split("=", 1)) for peer in options.peer]
    if any(len(peer) != 2 for peer in options.peer):
        sys.exit("bench: --peer takes NAME=/path/of/library.so")
    names = options.allocators.split(",") if options.allocators else None
    if options.smoke and not names:
        names = [allocators.OURS, allocators.SYSTEM] + [name for name, _ in options.peer]
    options.names = names


def choose_programs(patterns):
    if not patterns:
        return suite.PROGRAMS
    chosen = [p for p in suite.PROGRAMS if any(fnmatch(p.name, pattern) for pattern in patterns)]
    for pattern in patterns:
        if not any(fnmatch(p.name, pattern) for p in suite.PROGRAMS):
            sys.exit(f"bench: no program is called {pattern}; --list shows them")
    return chosen


def build_programs(directory):
    for command in (["cmake", "-S", ROOT / "bench", "-B", directory],
                    ["cmake", "--build", directory, "--parallel", str(os.cpu_count() or 1)]):
        try:
            result = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            sys.exit("bench: cmake is needed to build the programs (package cmake)")
        if result.returncode != 0:
            sys.exit(f"bench: building the programs failed:\n{result.stdout}{result.stderr}")


class Progress:
    """Counts runs and tells the time left from the mean of what each program took so far."""

    def __init__(self, programs, count, rounds):
        self.left = {p.name: count * rounds for p in programs}
        self.mean = {p.name: p.seconds for p in programs}
        self.seen = {p.name: 0 for p in programs}
        self.done, self.total = 0, len(programs) * count * rounds

    def step(self, program, seconds):
        seen = self.seen[program]
        self.mean[program] = (self.mean[program] * seen + seconds) / (seen + 1)
        self.seen[program] += 1
        self.left[program] -= 1
        self.done += 1

    def show(self, text):
        seconds = sum(self.left[p] * self.mean[p] for p in self.left)
        line = (f"[{self.done + 1}/{self.total}, {int(seconds) // 60}:{int(seconds) % 60:02d} left] "
                f"{text}")
        if sys.stderr.isatty():
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


def measure_all(options, programs, chosen, keep):
    runs = []
    progress = Progress(programs, len(chosen), options.runs)
    launcher = options.build / "launch"
    for program in programs:
        command = program.command(options.build, options.scale)
        for round_number in range(options.runs):
            turn = round_number % len(chosen)
            for allocator in chosen[turn:] + chosen[:turn]:
                progress.show(f"{program.name}, round {round_number + 1}, {allocator.name}")
                began = time.monotonic()
                figures = measure.run(launcher, command, allocator.library, options.out)
                progress.step(program.name, time.monotonic() - began)
                if "failed" not in figures:
                    figures.pop("output")
                runs.append({"program": program.name, "group": program.group,
                             "allocator": allocator.name, "round": round_number + 1,
                             "command": [Path(command[0]).name, *map(str, command[1:])],
                             **figures})
        runs.sort(key=lambda r: [a.name for a in chosen].index(r["allocator"]))
        keep(runs)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    order = {p.name: i for i, p in enumerate(programs)}
    runs.sort(key=lambda r: order[r["program"]])
    keep(runs)
    return runs


def machine():
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            model = next((line.split(":", 1)[1].strip() for line in info
                          if line.startswith("model name")), model)
    except OSError:
        pass
    return {"processor": model, "processors": os.cpu_count(), "kernel": platform.release(),
            "system": " ".join(platform.freedesktop_os_release().get(k, "")
                               for k in ("NAME", "VERSION")).strip()}


def main():
    options = parse_arguments()
    if options.list:
        for program in suite.PROGRAMS:
            print(f"{program.name:<20} {program.executable} "
                  f"{' '.join(map(str, program.arguments))}")
        return 0
    settle_defaults(options)
    programs = choose_programs(options.programs)
    chosen = allocators.choose(options.names, options.ours, options.peer)
    options.out = options.out.resolve()
    options.build = options.build.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    build_programs(options.build)
    head = {"when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "arguments": sys.argv[1:], "rounds": options.runs, "scale": options.scale,
            "machine": machine(),
            "allocators": {a.name: allocators.version(a) for a in chosen}}

    def keep(runs):
        text = json.dumps({**head, "runs": runs}, indent=1)
        (options.out / "results.json").write_text(text + "\n", encoding="utf-8")

    runs = measure_all(options, programs, chosen, keep)
    text = "\n\n".join(report.format_table(report.Table(runs, m)) for m in options.metric)
    (options.out / "results.txt").write_text(text + "\n", encoding="utf-8")
    print(text)
    failed = report.failures(runs)
    for line in dict.fromkeys(failed):
        print(f"bench: not quoted: {line}", file=sys.stderr)
    must = {allocators.OURS, allocators.SYSTEM}
    return 1 if any("failed" in r and r["allocator"] in must for r in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
