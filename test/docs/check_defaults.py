#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that every default of an option that a document names is the code's.

  check_defaults.py CC WORK   asks the code by a program that is built in the folder WORK

Looked at are the tables of docs/options.md, docs/man/mimalloc.7, the comments of the options in
include/mimalloc.h, and in every document `option`: ... default of N, and **Taken: `option=N`**.
Every option has to stand in the first three. Exit status 0: all agree; 1: not.
"""

import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = """#include <stdio.h>
#include "../src/base/options.h"
#define SAY(name, caps, least, most) printf("%s %ld\\n", #name, (long)MI_DEFAULT_##caps);
int main(void) { MX_OPTIONS(SAY) return 0; }
"""
NAME = re.compile(r"`([a-z_]+)`")
VALUE = re.compile(r"^\(?(?:\\?(-?[\d,]+))\s*(KiB|MiB|GiB|ms)?")
ROW = re.compile(r"^\| ((?:`[a-z_]+`(?:, )?)+) \| ([^|]+) \|", re.MULTILINE)
MAN = re.compile(r"^\.B ([a-z_]+) \\fR\(([^)]+)\)", re.MULTILINE)
HEADER = re.compile(r"^  mi_option_([a-z_]+),\s*///< .*\(([^()]+)\)(?:; 2 traces)?$", re.MULTILINE)
PROSE = (re.compile(r"`([a-z_]+)`:[^|\n]*?\bdefault of (-?\d+)"),
         re.compile(r"\*\*Taken: `([a-z_]+)=(-?\d+)`"))
UNITS = {None: 1, "ms": 1, "KiB": 1, "MiB": 1024, "GiB": 1024 * 1024}
# Its values are bytes, unlike those of other sizes.
IN_BYTES = {"guarded_max"}


def number_of(name, text):
    """A default as the code has it, in KiB for sizes; None when the text is no number."""
    match = VALUE.match(text.strip())
    if not match:
        return None
    value = int(match[1].replace(",", "")) * UNITS[match[2]]
    return value * 1024 if name in IN_BYTES and match[2] else value


def table_defaults(text):
    """(option, default) of the rows of a document's tables; one default may serve several names."""
    for names, values in ROW.findall(text):
        names = NAME.findall(names)
        values = values.split(", ") if len(names) > 1 else [values]
        for i, name in enumerate(names):
            yield name, values[i if len(values) == len(names) else 0]


def prose_defaults(text):
    """(option, default) of a document's sentences."""
    for pattern in PROSE:
        yield from pattern.findall(text)


def compare(place, said, code):
    """Complaints about defaults that a place says and the code does not."""
    for name, text in said:
        value = number_of(name, text)
        if name in code and value is not None and value != code[name]:
            yield f"{place}: {name} is {code[name]}, not {text.strip()}"


def unnamed(place, said, code):
    """Complaints about options with an effect that a place has no default of."""
    names = {name for name, text in said if number_of(name, text) is not None}
    return [f"{place}: no default of {name}" for name in sorted(set(code) - names)]


def code_defaults(cc, work):
    """The defaults of a release build on 64 bits: option -> number."""
    work.mkdir(parents=True, exist_ok=True)
    program = work / "defaults"
    subprocess.run([cc, "-x", "c", "-w", "-DNDEBUG", f"-I{SOURCE}/include", "-o", str(program), "-"],
                   input=PROGRAM, text=True, check=True, cwd=SOURCE / "include")
    out = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in (line.split() for line in out.splitlines())}


def main():
    code = code_defaults(sys.argv[1], pathlib.Path(sys.argv[2]).resolve())
    active = {n: v for n, v in code.items() if not n.startswith("deprecated_")}
    read = lambda path: (SOURCE / path).read_text()
    table = list(table_defaults(read("docs/options.md")))
    man = list(MAN.findall(read("docs/man/mimalloc.7")))
    header = list(HEADER.findall(read("include/mimalloc.h")))
    complaints = []
    for place, said in (("options.md", table), ("mimalloc.7", man), ("mimalloc.h", header)):
        complaints += compare(place, said, code)
    complaints += unnamed("options.md", table + [(n, "0") for n in without_effect(read)], active)
    for path in sorted([*SOURCE.glob("*.md"), *(SOURCE / "docs").glob("*.md")]):
        complaints += compare(path.name, prose_defaults(path.read_text()), code)
    print("\n".join(complaints) if complaints else
          f"{len(table) + len(man) + len(header)} defaults are those of the code")
    return 1 if complaints else 0


def without_effect(read):
    """The options that options.md lists as without effect: no default is told of them."""
    text = read("docs/options.md").split("## Without effect")[1].split("\n## ")[0]
    return NAME.findall(text)


if __name__ == "__main__":
    sys.exit(main())
