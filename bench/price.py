#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What each mitigation of the hardened builds costs: `python3 bench/price.py`.

Builds the release, the secure and the full library, and for each mitigation of
src/base/mitigations.h the secure library without it (the full one, when only that has it). All of
them take turns in every program of a fixed set, each round starting with another one. Of the rounds
the least processor time and the median of the peak memory count. Prints Markdown tables: each build
relative to release, and what leaving a mitigation out saves.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import allocators
import build
import measure
import suite

MITIGATIONS = build.ROOT / "src" / "base" / "mitigations.h"
RELEASE, SECURE, FULL, SAMPLED = "release", "secure", "full", "sampled"
SAMPLE_RATE = "4000"

# Three programs that do real work, and benchmarks of all kinds on one thread or two. Their amounts
# of work make each run about as long, and the live data large enough for the memory to tell.
REAL = {"python": 0.15, "lua": 0.15, "sqlite": 0.15}
BENCHMARKS = {
    "cfrac-1": 0.15, "espresso-1": 0.15, "larson-1": 0.1, "mstress-1": 0.15, "rptest-1": 0.1,
    "alloc-test-1": 0.06, "sh6bench-1": 0.1, "xmalloc-test-1": 0.1, "cache-scratch-1": 0.1,
    "realloc-grow-1": 0.15, "lifetimes-1": 0.2, "random-small-1": 0.06, "random-large-1": 0.06,
    "batch-1": 0.06,
}


@dataclass(frozen=True)
class Mitigation:
    number: int
    name: str
    level: int  # from which on it is there


def mitigations(text):
    """Those that a secure or a full build has, as mitigations.h says."""
    found = []
    pattern = r"^// (\d+): .*?^#define MX_(\w+)[ \\\n]+(.*?)\n(?:\n|//)"
    for number, name, wanted in re.findall(pattern, text, re.MULTILINE | re.DOTALL):
        levels = re.findall(r"MX_SECURE >= (\d)", wanted)
        if levels or "MX_DEBUG" not in wanted:
            found.append(Mitigation(int(number), name.lower().replace("_", " "),
                                    int(levels[-1]) if levels else 3))
    return found


@dataclass(frozen=True)
class Variant:
    name: str
    label: str
    arguments: tuple
    base: str  # what it is compared with, besides release
    environment: dict = field(default_factory=dict)

    @staticmethod
    def without(mitigation):
        base = FULL if mitigation.level >= 5 else SECURE
        option = "-DMI_SECURE_FULL=ON" if base == FULL else "-DMI_SECURE=ON"
        return Variant(f"without-{mitigation.number}",
                       f"{base} without {mitigation.number}, {mitigation.name}",
                       (option, f"-DCMAKE_C_FLAGS=-DMI_OMIT_MITIGATIONS={1 << mitigation.number}"),
                       base)


def variants():
    known = mitigations(MITIGATIONS.read_text(encoding="utf-8"))
    return [Variant(RELEASE, RELEASE, (), ""), Variant(SECURE, SECURE, ("-DMI_SECURE=ON",), ""),
            Variant(FULL, FULL, ("-DMI_SECURE_FULL=ON",), ""), *map(Variant.without, known)]


def sampled():
    """The release library with sampled guards on; only where it is asked for."""
    return Variant(SAMPLED, f"release, one guard in {SAMPLE_RATE}", (), "",
                   {"MIMALLOC_GUARDED_SAMPLE_RATE": SAMPLE_RATE})


def say(text):
    print(text, file=sys.stderr, flush=True)


def build_library(variant, directory):
    """The path of the variant's library, built anew where it is not up to date."""
    place = directory / variant.name
    for command in (["cmake", "-S", build.ROOT, "-B", place, "-DCMAKE_BUILD_TYPE=Release",
                     "-DMI_BUILD_TESTS=OFF", *variant.arguments],
                    ["cmake", "--build", place, "--target", "mimalloc", "--parallel",
                     str(os.cpu_count() or 1)]):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            sys.exit(f"price: building {variant.name} failed:\n{result.stdout}{result.stderr}")
    return str(next(p for p in sorted(place.glob("libmimalloc*.so")) if p.is_file()).resolve())


@dataclass(frozen=True)
class Library:
    path: str
    environment: dict


def library_of(variant):
    if variant.base == "library":
        return Library(allocators.existing(variant.arguments[0]), {})
    built = variants()[0] if variant.environment else variant
    return Library(build_library(built, build.ROOT / "out" / "price"), variant.environment)


def measure_program(options, program, scale, libraries):
    """Per variant the runs of one program: lists of (processor time, peak memory)."""
    directory = options.out / "work" / program.name
    directory.mkdir(parents=True, exist_ok=True)
    job = program.job(options.build, directory, scale * options.scale)
    runs = {name: [] for name in libraries}
    names = list(libraries)
    for number in range(options.runs):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            own = replace(job, environment={**job.environment, **libraries[name].environment})
            run = measure.run(options.build / "launch", own, libraries[name].path, directory)
            if "failed" in run:
                sys.exit(f"price: {program.name} with {name}: {run['failed']}\n{run['output']}")
            runs[name].append((run["user"] + run["sys"], run["rss_kib"] / 1024))
    return runs


def summarise(runs):
    """{program: {variant: (seconds, MiB)}} of the raw runs."""
    return {program: {name: (min(r[0] for r in own), statistics.median(r[1] for r in own))
                      for name, own in by_name.items()}
            for program, by_name in runs.items()}


def mean(table, name, base, index, programs):
    ratios = [table[p][name][index] / table[p][base][index] for p in programs if p in table]
    return statistics.geometric_mean(ratios) if ratios else float("nan")


def percent(ratio):
    return f"{(ratio - 1) * 100:+.1f} %"


def format_builds(table, chosen):
    lines = ["| build | time | of real programs | memory | leaving it out: time | memory |",
             "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for variant in chosen:
        cells = [f"{mean(table, variant.name, RELEASE, 0, table):.3f}",
                 f"{mean(table, variant.name, RELEASE, 0, REAL):.3f}",
                 f"{mean(table, variant.name, RELEASE, 1, table):.3f}", "", ""]
        if variant.base in {v.name for v in chosen}:
            cells[3] = percent(mean(table, variant.name, variant.base, 0, table))
            cells[4] = percent(mean(table, variant.name, variant.base, 1, table))
        lines.append(f"| {variant.label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def format_programs(table, chosen):
    shown = [v.name for v in chosen if v.base in ("", "library") and v.name != RELEASE]
    lines = ["| program | release, s | MiB | " + " | ".join(f"{n}, time | memory" for n in shown) + " |",
             "| --- | ---: | ---: |" + " ---: | ---: |" * len(shown)]
    for program, row in table.items():
        seconds, memory = row[RELEASE]
        cells = [f"{row[n][0] / seconds:.2f} | {row[n][1] / memory:.2f}" for n in shown]
        lines.append(f"| {program} | {seconds:.2f} | {memory:.1f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Prices of the mitigations of hardened builds.")
    parser.add_argument("--builds", metavar="A,B", help="only these besides release: secure, full, "
                        "without-N, sampled; NAME=LIBRARY adds one that is built already")
    parser.add_argument("--programs", metavar="A,B", help="only these programs")
    parser.add_argument("--runs", type=int, default=3, help="rounds (default: 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="a factor to the amounts of work")
    parser.add_argument("--build-only", action="store_true", help="build the libraries and stop")
    build.add_arguments(parser)
    options = parser.parse_args()
    options.out, options.build = options.out.resolve(), options.build.resolve()
    return options


def chosen_variants(options):
    known = variants()
    if not options.builds:
        return known
    known.append(sampled())
    chosen = [known[0]]
    for name in options.builds.split(","):
        if "=" in name:
            label, path = name.split("=", 1)
            chosen.append(Variant(label, label, (path,), "library"))
            continue
        match = [v for v in known if v.name == name]
        if not match:
            sys.exit(f"price: no build is called {name}; known: " + ", ".join(v.name for v in known))
        chosen += [v for v in match if v not in chosen]
    return chosen


def main():
    options = parse_arguments()
    chosen = chosen_variants(options)
    scales = {**REAL, **BENCHMARKS}
    names = options.programs.split(",") if options.programs else list(scales)
    programs = [next((p for p in suite.PROGRAMS if p.name == n), None) for n in names]
    if None in programs or not set(names) <= set(scales):
        sys.exit("price: programs are of " + ", ".join(scales))
    allocators.install(set().union(*(p.missing() for p in programs)), "the programs to be measured")
    build.programs(options.build)
    libraries = {}
    for variant in chosen:
        say(f"building {variant.label}")
        libraries[variant.name] = library_of(variant)
    if options.build_only:
        return 0
    runs = {}
    for program in programs:
        say(f"{program.name}: {options.runs} rounds of {len(chosen)} builds")
        runs[program.name] = measure_program(options, program, scales[program.name], libraries)
    table = summarise(runs)
    print(format_builds(table, chosen), format_programs(table, chosen), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
