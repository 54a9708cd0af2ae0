#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What pins memory: blocks alone in their OS page, and in pairs, against what is known of them.

  check_pins.py PROGRAM           PROGRAM is pins.c
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pprof

SIZE, COUNT = 64, 1000000


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "pins.pb"
        subprocess.run([program, path], check=True)
        profile = pprof.read_pprof(path.read_bytes())
    listing = subprocess.run(["nm", program], check=True, text=True, stdout=subprocess.PIPE).stdout
    symbols = sorted((int(a, 16), n) for a, n in re.findall(r"^(\w+) \w (\S+)$", listing, re.M))
    program_mapping = profile.mappings[0]

    def name(address):
        at = address - program_mapping.start + program_mapping.offset
        return next((n for a, n in reversed(symbols) if a <= at), "?")

    sums = {}
    for sample in profile.samples:
        for caller in ("stays_alone", "stays_paired", "goes"):
            if caller in [name(a) for a in sample.stack]:
                total = sums.setdefault(caller, [0, 0])
                total[0] += sample.values[0]
                total[1] += sample.values[1]
    os_page = os.sysconf("SC_PAGESIZE")
    pages = COUNT / 2 / (os_page // SIZE)
    alone, paired = pages * (os_page - SIZE), pages * (os_page - 2 * SIZE)
    found = sums.get("stays_alone", [0, 0]), sums.get("stays_paired", [0, 0])
    print(f"{profile.types} {sums}, truth {alone:.0f} and {paired:.0f}")
    # Few samples are in pages that blocks are taken from, or where one stands in for another.
    good = (profile.types[0] == ("pinned_space", "bytes") and profile.default == "pinned_space" and
            abs(found[0][0] - alone) < .2 * alone and found[0][1] > .9 * found[0][0] and
            abs(found[1][0] - paired) < .2 * paired and found[1][1] < .1 * found[1][0] and
            sums.get("goes", [0, 0])[0] < .05 * alone)
    if not good:
        print("FAIL")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
