#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stacks that are damaged, and code without unwind tables: the program goes on, and its profile is whole.

  check_broken.py --library LIBRARY PROGRAM...

The programs are broken.c, with and without frame pointers and unwind tables.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import pprof

KEPT, RATE = 20000, 8192


def check(library, program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "a.pb"
        environment = {k: v for k, v in os.environ.items() if not k.lower().startswith("mimalloc_")}
        environment.update(LD_PRELOAD=str(library.resolve()), MIMALLOC_PROF="1",
                           MIMALLOC_PROF_RATE=str(RATE), MIMALLOC_PROF_FILE=str(path))
        done = subprocess.run([program, str(KEPT)], env=environment, check=False)
        if done.returncode != 0:
            return f"ends with {done.returncode}"
        if [p.name for p in pathlib.Path(folder).iterdir()] != ["a.pb"]:
            return f"leaves {list(pathlib.Path(folder).iterdir())}"
        profile = pprof.read_pprof(path.read_bytes())
    live = sum(s.values[3] for s in profile.samples)
    if abs(live - KEPT * 1000) > .15 * KEPT * 1000:
        return f"{live} bytes are live of {KEPT * 1000}"
    own = [m for m in profile.mappings if os.path.realpath(m.path) == os.path.realpath(program)]
    named = sum(s.values[3] for s in profile.samples
                if s.stack and any(m.start <= s.stack[0] < m.limit for m in own))
    return None if named > .95 * live else f"{named} of {live} bytes are of the program's code"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True, type=pathlib.Path)
    parser.add_argument("programs", nargs="+")
    options = parser.parse_args()
    failures = 0
    for program in options.programs:
        wrong = check(options.library, program)
        failures += wrong is not None
        print(f"{os.path.basename(program)}: {wrong or 'good'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
