#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rows of a report add up to what the system says, and memory stands in the row it belongs to.

  check_report.py SITUATIONS [--plain] [NAME...]

SITUATIONS is the program of situations.c, linked to the library under test. --plain: its library
makes holes and keeps huge blocks, as a build without checks does.

In each situation: all rows together are the resident size of the report, to 0.1 %; that is what
the system tells just before or after (or between), to 2 %; the blocks by size add up to their
rows. What a situation adds to the rows, against the report before it, is known. Exit status 0, 1.
"""

import json
import re
import subprocess
import sys

KIB, MIB = 1 << 10, 1 << 20
FREE = ("free_current", "free_partial", "free_sleeping", "free_abandoned", "free_pinned",
        "free_empty")
# Situation: for rows, or sums of rows, what they grow by: (at least, at most).
EXPECTED = {
    "idle": {"live": (0, 64 * KIB), "anonymous": (0, 256 * KIB)},
    "small": {"live": (200000 * 64, 200000 * 64 * 1.03)},
    "fragmented": {"live": (25000 * 256, 25000 * 256 * 1.05),
                   "free_*": (75000 * 256 * .9, 75000 * 256 * 1.1)},
    "waiting": {"waiting": (4 * MIB, 32 * MIB)},
    "kept": {"kept": (25 * MIB, 34 * MIB), "waiting": (0, 0)},
    "partly_touched": {"live_huge": (10 * MIB, 10 * MIB + 64 * KIB)},
    "only_read": {"live_huge": (0, 64 * KIB), "anonymous": (0, 64 * KIB)},
    "aligned": {"live": (400 * 20 * KIB, 400 * 41 * KIB)},
    "growing": {"live_huge": (30 * MIB, 40 * MIB)},
    "large_pages": {"live": (8 * MIB * .95, 9 * MIB)},
    "guarded": {"live_guarded": (600 * 4 * KIB, 600 * 8 * KIB),
                "guarded_freed": (4 * KIB, 2 * MIB)},
    "limited": {"live": (3000 * 7 * KIB * .98, 3000 * 8 * KIB * 1.1)},
    "heaps": {"live": (6000 * 1000, 6000 * 1100)},
    "many_heaps": {"live": (40 * 500 * 1000, 40 * 500 * 1100)},
    "profiled": {"profiler": (32 * KIB, MIB)},
    "handed_over": {"live": (2000 * 8 * KIB, 2000 * 9 * KIB), "files": (-MIB, MIB),
                    "anonymous": (-MIB, MIB)},
    "mapping": {"anonymous": (40 * MIB, 40 * MIB + 64 * KIB)},
    "shared": {"shared": (20 * MIB, 20 * MIB)},
    "file": {"files": (8 * MIB, 9 * MIB)},
    "brk": {"brk": (4 * MIB, 4 * MIB + 64 * KIB)},
    "sleeping": {"free_sleeping": (16 * 3000 * 512 * .8, 16 * 3000 * 512 * 1.1),
                 "free_partial": (0, 64 * KIB)},
    "running": {"free_partial": (6000 * 512 * .8, 6000 * 512 * 1.1),
                "free_sleeping": (0, 64 * KIB)},
    "ended": {"free_abandoned": (16 * 3000 * 512 * .8, 16 * 3000 * 512 * 1.1)},
    "freed_by_another": {"live": (0, 16 * KIB)},
    "stacks": {"stacks": (16 * 512 * KIB, 16 * 600 * KIB), "anonymous": (-MIB, MIB)},
    "subproc": {"live": (10000 * 512, 10000 * 512 * 1.05)},
    "in_child": {"live": (66666 * 100, 66667 * 112 * 1.05)},
    "beside_child": {"live": (200000 * 100, 200000 * 112 * 1.05)},
    "no_proc": {"live": (200000 * 64, 200000 * 64 * 1.03)},
    "no_file": {"live": (200000 * 64, 200000 * 64 * 1.03)},
    "one_file": {"live": (200000 * 64, 200000 * 64 * 1.03)},
}
# Where nothing can be read of what the system says; there the resident size alone can.
UNKNOWN = {"no_proc", "no_file"}
INCOMPLETE = UNKNOWN | {"one_file"}
PLAIN = {
    "waiting_for_ever": {"waiting": (25 * MIB, 34 * MIB), "kept": (0, 0)},
    "huge_freed": {"huge_kept": (10 * MIB, 10 * MIB + 128 * KIB)},
    "holes": {"free_pinned": (5000 * 3 * KIB, 5000 * 4.5 * KIB), "live": (5000 * 256, 5000 * 300)},
}
# What guards and canaries take of a block of a checked build is not the program's.
INEXACT = {"small", "fragmented", "heaps", "many_heaps", "subproc", "in_child", "beside_child",
           "no_proc", "no_file", "one_file", "large_pages", "limited", "handed_over", "sleeping", "running", "ended", "aligned",
           "partly_touched", "growing", "kept"}


def bytes_of(report, row):
    if row == "free_*":
        return sum(bytes_of(report, name) for name in FREE)
    return report["rows"][row]["bytes"]


def near(a, b, share):
    return abs(a - b) <= share * max(a, b) + 4 * KIB


def complaints(name, found, plain):
    report, told = found["after"], [kib * KIB for kib in found["after_kib"]]
    total = sum(row["bytes"] for row in report["rows"].values())
    resident = report["resident"]
    if report["is_exact"] != (name not in INCOMPLETE):
        yield f"is_exact is {report['is_exact']}"
    if report["is_resident_known"] != (name not in UNKNOWN):
        yield f"is_resident_known is {report['is_resident_known']}"
    if not near(total, resident, .001):
        yield f"rows add up to {total}, resident are {resident}"
    if name in UNKNOWN:
        if found["after_kib"] != [0, 0] or total != resident:
            yield f"rows add up to {total}, it says {resident}, the system {told}"
    else:
        if not (near(resident, told[0], .02) or near(resident, told[1], .02)):
            yield f"resident {resident}, the system says {told}"
    live = bytes_of(report, "live") + bytes_of(report, "live_huge")
    if not near(sum(b["live"] for b in report["bins"]), live, .01):
        yield "the blocks by size are not those of the rows"
    if not near(sum(h["live"] for h in report["heaps"]), live, .01):
        yield "the heaps are not those of the rows"
    wanted = dict(EXPECTED.get(name, {}), **(PLAIN.get(name, {}) if plain else {}))
    for row, (least, most) in wanted.items():
        if not plain and name in INEXACT:
            least, most = least * .9, most * 1.5 + MIB
        grown = bytes_of(report, row) - bytes_of(found["before"], row)
        # Code that runs for the first time is no more than this.
        if not least - 32 * KIB <= grown <= most + 32 * KIB:
            yield f"row {row} grew by {grown}, not from {least:.0f} to {most:.0f}"


def complaints_of_text(name, text):
    """The total stands above rows that it is the sum of, and says what it is."""
    label, amount, share = re.search(r"^  (\S.*?) {2,}(\S+ +[KMG]?i?B) +(\S+) %$", text,
                                     re.MULTILINE).groups()
    if label != ("touched by the library" if name in UNKNOWN else "resident"):
        yield f"the total is called {label}"
    if share != "100.0" or not amount.endswith("MiB"):
        yield f"the total is {amount}, {share} %"
    groups = re.findall(r"^  \S.*?B +(\S+) %$", text, re.MULTILINE)[1:]
    if not 99 <= sum(map(float, groups)) <= 101:
        yield f"groups of {groups} percent"
    if ("Nor is the resident size known" in text) != (name in UNKNOWN):
        yield "says what is not so of the resident size"


def check_heaps(report):
    sizes = sorted(h["live"] for h in report["heaps"])[-3:]
    wanted = [n * 1000 * 1000 for n in (1, 2, 3)]
    if not all(w * .98 <= s <= w * 1.3 for s, w in zip(sizes, wanted)):
        yield f"heaps of {sizes}"


def main():
    program, *names = [a for a in sys.argv[1:] if a != "--plain"]
    plain = "--plain" in sys.argv
    if not names:
        names = subprocess.run([program, "--names"], stdout=subprocess.PIPE, text=True,
                               check=True).stdout.split()
    failed = done = 0
    for name in names:
        run = subprocess.run([program, name], stdout=subprocess.PIPE, text=True, timeout=120)
        if run.returncode == 77:
            print(f"{name}: not possible here")
            continue
        if run.returncode != 0:
            print(f"{name}: status {run.returncode}")
            failed += 1
            continue
        done += 1
        found = json.loads(run.stdout)
        lines = list(complaints(name, found, plain))
        if name == "heaps":
            lines += check_heaps(found["after"])
        if name in INCOMPLETE or name == "small":
            text = subprocess.run([program, name, "text"], stdout=subprocess.PIPE, text=True,
                                  timeout=120, check=True).stdout
            lines += complaints_of_text(name, text)
        failed += bool(lines)
        print(f"{name}: {', '.join(lines) or 'good'}")
    print(f"{done} situations, {failed} failed")
    return 1 if failed or done < min(20, len(names)) else 0


if __name__ == "__main__":
    sys.exit(main())
