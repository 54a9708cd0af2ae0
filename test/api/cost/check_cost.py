#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what heaps cost, in instructions: check_cost.py PROGRAM

Callgrind counts each loop of the program cost with two counts; the difference is what a turn costs,
free of start-up. From a heap a block costs at most 6 instructions more than from malloc. A heap
that is made, filled with 100 small blocks and destroyed costs at most HEAP_BOUND times what 100
pairs of malloc and free do (in time it costs less than they do: no block is looked at again).

Exit status 0: as it should be; 1: not; 77: valgrind is not installed.
"""

import re
import shutil
import subprocess
import sys

SHORT, LONG = 500, 1500
HEAP_BOUND = 1.4
MORE_FOR_HEAP = 6


def instructions(program, loop, count):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                           program, loop, str(count)], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100)
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def turn(program, loop):
    cost = (instructions(program, loop, LONG) - instructions(program, loop, SHORT)) / (LONG - SHORT)
    print(f"{loop}: {cost:.1f} instructions")
    return cost


def main():
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return 77
    program = sys.argv[1]
    more = turn(program, "heap-pair") - turn(program, "pair")
    ratio = turn(program, "whole-heap") / turn(program, "pairs")
    print(f"a block from a heap: {more:.1f} more; a whole heap: {ratio:.2f} times 100 pairs")
    return 0 if more <= MORE_FOR_HEAP and ratio <= HEAP_BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
