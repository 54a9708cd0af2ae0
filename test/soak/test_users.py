#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What users.py says of rows: a leak is one, the time until blocks lie as they do for good is none."""

import sys

import users


def rows(operations, memory):
    """A row a second with so many operations, and what memory(all operations) answers."""
    return [(second, memory(second * operations), operations, 1, 1, 1) for second in range(1, 201)]


def settling(done):
    return 15e6 + 6e6 * min(done / 100000, 1)


def main():
    cases = (("a busy machine has few operations", rows(63, settling), None),
             ("flat once it has settled", rows(1500, settling), True),
             ("sways by a twentieth then", rows(5000, lambda done: settling(done) * (1 + done / 2e7)), True),
             ("grows by a quarter then", rows(5000, lambda done: settling(done) * (1 + done / 4e6)), False))
    bad = 0
    for what, of, wanted in cases:
        said = users.judge("web", of)
        bad += said is not wanted
        print(f"{'ok' if said is wanted else 'FAIL'}: {what}: {said}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
