#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What forks cost under a preloaded library: `bench/forks.py [-n ROUNDS] [NAME=LIBRARY ...]`.

The program programs/forks.c runs in turns without a library, with an empty one (what preloading
costs by itself) and with each that is named (default: ours=out/release/libmimalloc.so). Printed are
the least and the median of the processor time of a fork, parent and child together, the median's
ratio to the run without a library, page faults of parent and child for each fork, and KiB of page
tables; then, where valgrind is, the instructions that a program's start takes. Faults and
instructions repeat nearly exactly on a busy machine, times do not.

With --check it says instead whether forks have few faults: that a library writes nothing beside a
fork in a process with one thread, as it can know from glibc 2.32 on, and little beside one of a
process with two.
"""

import argparse
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

KINDS = {"exit": 300, "work": 300, "exec": 100, "busy": 300}
HERE = Path(__file__).resolve().parent
TIMEOUT = 300


def environment(library):
    result = {k: v for k, v in os.environ.items() if not k.startswith("MIMALLOC_")}
    result.pop("LD_PRELOAD", None)
    if library:
        result["LD_PRELOAD"] = library
    return result


def run(program, kind, library):
    done = subprocess.run([program, kind, str(KINDS[kind])], env=environment(library), check=True,
                          capture_output=True, text=True, timeout=TIMEOUT)
    return [float(word) for word in done.stdout.split()]


def instructions(program, library, folder):
    """Of a start that allocates one block, the dynamic linker's included; None without valgrind."""
    if not shutil.which("valgrind"):
        return None
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/profile",
                           program], env=environment(library), check=True, capture_output=True,
                          text=True, timeout=TIMEOUT)
    return int(re.search(r"refs:\s+([\d,]+)", done.stderr).group(1).replace(",", ""))


# Faults of parent and child, more than without a library. Of the child: code that it runs, of which a
# fault brings as much as the system's cache of files lets it, and what it writes. Beside threads:
# locks, records of the threads that are gone, and of their pages.
FAULTS_MORE = {"exit": (1, 8), "busy": (8, 32)}


def check(program, libraries):
    """Whether forks with a library have hardly more faults than without one."""
    def least(kind, library):
        _, parents, children, _ = zip(*(run(program, kind, library) for _ in range(3)))
        return min(parents), min(children)

    wrong = 0
    for kind, (parent_more, child_more) in FAULTS_MORE.items():
        base_parent, base_child = least(kind, "")
        for name in libraries.keys() - {"none", "empty"}:
            parent, child = least(kind, libraries[name])
            print(f"{kind}, {name}: {parent:.1f} faults of the parent, {child:.1f} of the child for "
                  f"each fork; without: {base_parent:.1f} and {base_child:.1f}")
            wrong += parent > base_parent + parent_more or child > base_child + child_more
    return wrong


def measure(program, libraries, rounds, folder):
    print(f"{'':14}{'least':>8}{'median':>8}{'ratio':>7}{'faults':>8}{'child':>7}{'tables':>8}")
    for kind in KINDS:
        rows = {name: [] for name in libraries}
        for _ in range(rounds):
            for name, library in libraries.items():
                rows[name].append(run(program, kind, library))
        base = statistics.median(row[0] for row in rows["none"])
        for name, found in rows.items():
            usecs, parent, child, tables = zip(*found)
            median = statistics.median(usecs)
            print(f"{kind:6}{name:8}{min(usecs):8.1f}{median:8.1f}{median / base:7.2f}"
                  f"{statistics.median(parent):8.1f}{statistics.median(child):7.1f}{tables[0]:8.0f}")
    for name, library in libraries.items():
        print(f"start {name:8}{instructions(program, library, folder)} instructions")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-n", "--rounds", type=int, default=9)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("libraries", nargs="*", metavar="NAME=LIBRARY")
    options = parser.parse_args()
    named = options.libraries or [f"ours={HERE.parent / 'out/release/libmimalloc.so'}"]
    name, version = platform.libc_ver()
    if options.check and (name != "glibc" or tuple(map(int, version.split("."))) < (2, 32)):
        print("this C library does not say whether there are other threads: skipped")
        return 77
    compiler = os.environ.get("CC", "cc")
    with tempfile.TemporaryDirectory() as folder:
        program, empty = f"{folder}/forks", f"{folder}/empty.so"
        subprocess.run([compiler, "-O2", "-fno-builtin-malloc", "-pthread",
                        str(HERE / "programs/forks.c"), "-o", program], check=True)
        subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", empty],
                       check=True)
        libraries = {"none": "", "empty": empty}
        for pair in named:
            name, _, library = pair.partition("=")
            if not Path(library).is_file():
                sys.exit(f"forks.py: no library {library}")
            libraries[name] = str(Path(library).resolve())
        if options.check:
            return check(program, libraries)
        measure(program, libraries, options.rounds, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
