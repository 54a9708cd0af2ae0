#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that calls cost the same however much there is: check_scale.py PROGRAM [--long] [THING...]

Callgrind counts the loops of the program scale beside a few and beside many things of a kind: pages
of the thread's own, with a free block or full, abandoned ones, heaps, huge blocks, blocks of one
size, arenas, threads that end or go on after their end. The instructions of a turn of each loop may
grow by BOUND and SLACK; what depends on the number of things grows by more than ten times as much.
--long takes as many things as can be made, which needs 8 GiB of memory and some minutes.

Exit status 0: as it should be; 1: not; 77: valgrind is not installed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Few, many, and as many as can be made.
THINGS = {
    "pages": (100, 4000, 100000),
    "full": (100, 4000, 100000),
    "abandoned": (100, 4000, 100000),
    "heaps": (100, 4000, 20000),
    "huge": (100, 4000, 20000),
    "blocks": (100, 200000, 10000000),
    # In 150 there is more than one search looks at, and more room than one of the loops takes.
    "arenas": (150, 300, 600),
    "late": (10, 400, 3000),
    "threads": (10, 400, 3000),
}
BOUND, SLACK = 1.3, 150
# Whether the system has a large OS page to give is no matter of how much there is.
ENVIRONMENT = {**os.environ, "MIMALLOC_ALLOW_THP": "0"}
TURNS = 200


def cost(program, thing, count):
    """Instructions of a turn: {loop: number}."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["valgrind", "--tool=callgrind", "--instr-atstart=no", "--max-threads=5000",
                        f"--callgrind-out-file={directory}/out", program, thing, str(count)],
                       check=True, env=ENVIRONMENT, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=600)
        result = {}
        for dump in Path(directory).iterdir():
            text = dump.read_text()
            loop = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.M)
            if loop:
                total = re.search(r"^totals: (\d+)", text, re.M)
                result[loop.group(1)] = int(total.group(1)) / TURNS
        return result


def main():
    parser = argparse.ArgumentParser(description="Checks that calls cost the same beside many things.")
    parser.add_argument("program")
    parser.add_argument("--long", action="store_true", help="as many things as can be made")
    parser.add_argument("things", nargs="*", metavar="THING", help=f"of {', '.join(THINGS)}")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return 77
    wrong = 0
    for thing in options.things or THINGS:
        few, many, most = THINGS[thing]
        many = most if options.long else many
        small, large = cost(options.program, thing, few), cost(options.program, thing, many)
        print(f"instructions of a turn beside {few} and {many} {thing}:")
        if not small or small.keys() != large.keys():
            print("  not the same loops")
            wrong += 1
        for loop in small.keys() & large.keys():
            is_wrong = large[loop] > small[loop] * BOUND + SLACK
            wrong += is_wrong
            print(f"  {loop:8} {small[loop]:12.1f} {large[loop]:12.1f}{'  grows' if is_wrong else ''}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
