#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the blow-up patterns of blowup.c with several allocators and prints a table of the ratios of
peak resident memory to peak live bytes: the median of some runs each.

    cc -O2 -Iinclude -pthread test/stress/blowup.c -o blowup
    test/stress/blowup.py --program ./blowup --ours out/release/libmimalloc.so
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from allocators import PEERS, find_library  # noqa: E402

PATTERNS = ["bleed", "ring", "phases", "survivor", "vectors", "threads"]


def ratio(program, library, pattern):
    environment = dict(os.environ)
    if library:
        environment["LD_PRELOAD"] = library
    done = subprocess.run(
        [program, "0", "1", "4", pattern], env=environment, capture_output=True, text=True, check=False
    )
    match = re.search(r"ratio\s+([\d.]+)", done.stdout)
    if match is None:
        sys.exit(f"{pattern} with {library or 'glibc'}: {done.stderr.strip() or done.stdout}")
    return float(match.group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="blowup.c, linked with no allocator")
    parser.add_argument("--ours", required=True, help="the shared library of this project")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    rivals = [(name, find_library(file)) for name, file, _ in PEERS if name != "tbbmalloc"]
    libraries = [("mimalloc", os.path.abspath(options.ours)), ("glibc", "")]
    libraries += [(name, path) for name, path in rivals if path]
    print("| pattern | " + " | ".join(name for name, _ in libraries) + " |")
    print("| --- |" + " ---: |" * len(libraries))
    for pattern in PATTERNS:
        row = []
        for _, library in libraries:
            runs = [ratio(options.program, library, pattern) for _ in range(options.runs)]
            row.append(statistics.median(runs))
        print(f"| {pattern} | " + " | ".join(f"{value:.2f}" for value in row) + " |", flush=True)


if __name__ == "__main__":
    main()
