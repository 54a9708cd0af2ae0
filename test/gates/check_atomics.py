#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that docs/concurrency.md names every atomic variable of the source.

  check_atomics.py

A variable is what `mx_atomic(type) name` or `mx_bits_t* name` declares, in a structure, a file or a
function; parameters are none. It is named when a table of the document has it in backquotes, with or
without what it belongs to. Prints the missing ones; exit status 0 without, 1 with some.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCUMENT = "docs/concurrency.md"
TYPE = r"mx_atomic\((?:[^()]|\([^()]*\))*\)|mx_bits_t"
DECLARED = re.compile(r"^\s*(?:extern |static |mx_hidden )*(?:" + TYPE + r")[ *]+(\w+)\s*(?:[;=\[,][^)]*)?$")
MORE = re.compile(r",\s*(\w+)")


def declared(text):
    """Names of the atomic variables in a source."""
    names = set()
    for line in text.splitlines():
        line = line.split("//")[0].rstrip()
        for part in line.split(";"):
            match = DECLARED.match(part)
            if match:
                names.add(match.group(1))
                names.update(MORE.findall(part[match.end(1):]) if "=" not in part else [])
    return names


def named(text):
    """Words in backquotes in the rows of tables."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return {word for row in rows for code in re.findall(r"`([^`]+)`", row)
            for word in re.findall(r"\w+", code)}


def main():
    known = named((ROOT / DOCUMENT).read_text())
    count, missing = 0, []
    for path in sorted((ROOT / "src").rglob("*.[ch]")):
        names = declared(path.read_text())
        count += len(names)
        missing += [f"{path.relative_to(ROOT)}: {n}: not in {DOCUMENT}" for n in sorted(names - known)]
    print("\n".join(missing + [f"{count} atomic variables, {len(missing)} not named"]))
    return 1 if missing or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
