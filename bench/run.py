#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the benchmark suite and reports on it: `python3 bench/run.py --help`.

Within each program the allocators take turns, round by round, each round in another order, the same in
every run, so that a slow minute of the machine falls on all of them, and what one leaves to the next
(memory that the system has at hand) is not always the same one's gain. Raw runs go to
out/bench/results.json after every program; the table is printed at the end and kept beside it.
"""

import argparse
import json
import os
import platform
import random
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import allocators
import build
import charts
import instructions
import measure
import report
import suite

GROUPS = ("work", "programs", "stress", "drawn")


def parse_arguments():
    parser = argparse.ArgumentParser(
        description="Compares memory allocators on the benchmark suite.",
        epilog="Programs and options are described in docs/benchmarks.md.")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM",
                        help="names or patterns such as 'larson*', or a group: "
                        + ", ".join(GROUPS) + " (default: all but drawn)")
    parser.add_argument("--list", action="store_true", help="list the programs and stop")
    allocators.add_arguments(parser)
    build.add_arguments(parser)
    parser.add_argument("-n", "--runs", type=int, help="rounds (default 5; quick 2, smoke 1)")
    parser.add_argument("--scale", type=float, help="factor on the amount of work")
    parser.add_argument("--quick", action="store_true", help="a fifth of the work, 2 rounds")
    parser.add_argument("--smoke", action="store_true",
                        help="a fiftieth of the work, 1 round, ours and glibc: fails on crashes")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE",
                        help="set for every measured program; may be repeated")
    parser.add_argument("--metric", choices=sorted(report.METRICS), action="append",
                        help="tables to print (default: wall and rss); may be repeated")
    parser.add_argument("--charts", action=argparse.BooleanOptionalAction,
                        help="SVG charts of time and memory (default: in a full run)")
    parser.add_argument("--instructions", action=argparse.BooleanOptionalAction,
                        help="instruction counts by callgrind (default: in a full run)")
    return parser.parse_args()


def fill_defaults(options):
    full = not (options.quick or options.smoke or options.programs)
    default_runs, default_scale = (1, 0.02) if options.smoke else (2, 0.2) if options.quick else (
        5, 1.0)
    options.runs = options.runs or default_runs
    options.scale = options.scale or default_scale
    options.metric = options.metric or ["wall", "rss"]
    if any("=" not in pair for pair in options.env):
        sys.exit("bench: --env takes NAME=VALUE")
    options.charts = full if options.charts is None else options.charts
    options.instructions = full if options.instructions is None else options.instructions


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

    def guess(self, factor):
        self.mean = {name: mean * factor for name, mean in self.mean.items()}

    def show(self, text):
        seconds = int(sum(self.left[p] * self.mean[p] for p in self.left))
        say(f"[{self.done + 1}/{self.total}, {seconds // 60}:{seconds % 60:02d} left] {text}")


def say(line):
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
    else:
        print(line, file=sys.stderr, flush=True)


def preloads(options, program, chosen, directory):
    """Per allocator: what to preload for this program and why it cannot be measured, if so."""
    shim = options.build / "system-malloc.so"
    return {a.name: measure.preload_for(program.probe(options.build), a.library, shim, directory)
            for a in chosen}


def measure_program(options, program, chosen, progress):
    directory = options.out / "work" / program.name
    directory.mkdir(parents=True, exist_ok=True)
    job = program.job(options.build, directory, options.scale)
    job.environment.update(pair.split("=", 1) for pair in options.env)
    proven = preloads(options, program, chosen, directory)
    runs = []
    for round_number in range(options.runs):
        order = random.Random(f"{program.name} {round_number}").sample(chosen, len(chosen))
        for allocator in order:
            progress.show(f"{program.name}, round {round_number + 1}, {allocator.name}")
            began = time.monotonic()
            library, problem = proven[allocator.name]
            figures = ({"failed": problem} if problem else
                       measure.run(options.build / "launch", job, library, directory))
            progress.step(program.name, time.monotonic() - began)
            if "failed" not in figures:
                figures.pop("output")
            command = " ".join([Path(str(job.command[0])).name, *map(str, job.command[1:])])
            runs.append({"program": program.name, "group": program.group, "command": command,
                         "allocator": allocator.name, "round": round_number + 1, **figures})
    order = [a.name for a in chosen]
    runs.sort(key=lambda r: order.index(r["allocator"]))
    return runs


def measure_all(options, programs, chosen, keep):
    runs = []
    progress = Progress(programs, len(chosen), options.runs)
    progress.guess(max(options.scale, 0.1))
    for program in programs:
        runs += measure_program(options, program, chosen, progress)
        keep(runs)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return runs


def machine():
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            model = next((line.split(":", 1)[1].strip() for line in info
                          if line.startswith("model name")), model)
    except OSError:
        pass
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        system = platform.system()
    return {"processor": model, "processors": os.cpu_count(), "kernel": platform.release(),
            "system": system}


def prepare(options, programs):
    """Everything that must be there before the first run: tools, programs, directories."""
    missing = set().union(*(p.missing() for p in programs))
    allocators.install(missing, "the programs to be measured")
    if options.instructions:
        allocators.need_tool("valgrind", "valgrind", "counting instructions")
    options.out = options.out.resolve()
    options.build = options.build.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    build.programs(options.build)


def main():
    options = parse_arguments()
    if options.list:
        for program in suite.PROGRAMS + suite.DRAWN:
            print(f"{program.name:<18} {program.group:<9} {program.describe()}")
        return 0
    fill_defaults(options)
    programs = suite.matching(options.programs)
    smoke_names = [allocators.OURS, allocators.SYSTEM] + [p.split("=")[0] for p in options.peer]
    chosen = allocators.from_arguments(options, smoke_names if options.smoke else None)
    prepare(options, programs)
    results = {"when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
               "arguments": sys.argv[1:], "rounds": options.runs, "scale": options.scale,
               "machine": machine(),
               "allocators": {a.name: allocators.version(a) for a in chosen}}

    def keep(runs):
        results["runs"] = runs
        path = options.out / "results.json"
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")

    runs = measure_all(options, programs, chosen, keep)
    if options.instructions:
        results["instructions"] = instructions.count_all(
            options.build, options.out, chosen, list(instructions.SCRIPTS), say)
        keep(runs)
    text = report.full_text(results, options.metric)
    (options.out / "results.txt").write_text(text + "\n", encoding="utf-8")
    print(text)
    for line in report.failures(runs):
        print(f"bench: not quoted: {line}", file=sys.stderr)
    if options.charts:
        charts.draw_in_environment(options.out)
    must = {allocators.OURS, allocators.SYSTEM}
    return 1 if any("failed" in r and r["allocator"] in must for r in runs) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nbench: interrupted; what was measured so far is in results.json")
