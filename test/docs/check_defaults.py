#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that every default of an option that a document names is the code's.

  check_defaults.py CC WORK   asks the code by a program that is built in the folder WORK

Looked at are the tables of docs/options.md, docs/man/mimalloc.7, the comments of the options in
include/mimalloc.h, and in every document tables with a column `default`, and sentences like those of
PROSE, by the option's name or the environment's. Every option has to stand in the first three.
Exit status 0: all agree; 1: not.
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
VALUE = re.compile(r"^\(?(?:\\?(-?\d[\d,]*))\s*(KiB|MiB|GiB|ms|s)?\b")
ROW = re.compile(r"^\| ((?:`[a-z_]+`(?:, )?)+) \| ([^|]+) \|", re.MULTILINE)
MAN = re.compile(r"^\.BR? (.*)$", re.MULTILINE)
MAN_NAMES = re.compile(r"([a-z_]+(?:\s*,\s*[a-z_]+)*)\s*\(([^)]+)\)")
HEADER = re.compile(r"^  mi_option_([a-z_]+),\s*///< .*\(([^()]+)\)(?:; 2 traces)?$", re.MULTILINE)
N = r"-?\d[\d,]*(?:\s(?:KiB|MiB|GiB|ms|s)\b)?"
PROSE = tuple(re.compile(form.replace("NAME", "`(?:mi_option_)?([A-Za-z_]+)`").replace(
    "N_IS", "`(?:mi_option_)?([A-Za-z_]+)=").replace("VALUE", f"({N})")) for form in (
        r"NAME \(VALUE\)",
        r"NAME:[^|.]*?\bdefault of VALUE",
        r"NAME,? (?:is |has )?(?:by default|a default of|the default of|defaults to)(?: is)? VALUE",
        r"NAME is VALUE by default",
        r"NAME \((?:the |by )?default(?: is| of|:)? VALUE",
        r"NAME \(VALUE(?: by default|, the default)",
        r"[Dd]efault of NAME is VALUE",
        r"N_ISVALUE`[,:]? \(?(?:is )?(?:the |by )default\b",
        r"\*\*Taken: N_ISVALUE`"))
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
UNITS = {None: 1, "ms": 1, "s": 1000, "KiB": 1, "MiB": 1024, "GiB": 1024 * 1024}
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


def man_defaults(text):
    """(option, default) of the lines in bold print of the manual page."""
    for line in MAN.findall(text):
        for names, value in MAN_NAMES.findall(line.replace('"', "").replace("\\fR", "")):
            for name in names.split(","):
                yield name.strip(), value


def column_defaults(text):
    """(option, default) of tables whose first column has options and another one is `default`."""
    for table in TABLE.findall(text):
        rows = [[cell.strip() for cell in line.strip("|\n ").split("|")]
                for line in table.splitlines()]
        columns = [i for i, cell in enumerate(rows[0]) if "default" in cell.lower()]
        for row in rows[2:]:
            names = NAME.findall(row[0].lower().replace("mimalloc_", ""))
            if columns and len(names) == 1 and columns[0] < len(row):
                yield names[0], row[columns[0]]


def prose_defaults(text):
    """(option, default) of a document's sentences, which go on over lines."""
    text = " ".join(text.split())
    for pattern in PROSE:
        for name, value in pattern.findall(text):
            yield name.lower().removeprefix("mimalloc_"), value


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
    man = list(man_defaults(read("docs/man/mimalloc.7")))
    header = list(HEADER.findall(read("include/mimalloc.h")))
    complaints = []
    for place, said in (("options.md", table), ("mimalloc.7", man), ("mimalloc.h", header)):
        complaints += compare(place, said, code)
        complaints += unnamed(place, said + [(n, "0") for n in without_effect(read)], active)
    told = len(table) + len(man) + len(header)
    for path in documents():
        text = path.read_text()
        said = list(prose_defaults(text))
        if path.name != "options.md":
            said += column_defaults(text)
        complaints += compare(path.name, said, code)
        told += sum(name in code for name, _ in said)
    print("\n".join(complaints) if complaints else f"{told} defaults are those of the code")
    return 1 if complaints else 0


def documents():
    """All documents and manual pages, but for the history of changes."""
    found = [*SOURCE.glob("*.md"), *(SOURCE / "docs/man").glob("*.[37]")]
    for folder in ("docs", "rust", "zig", "samples", "test"):
        found += (SOURCE / folder).rglob("*.md")
    return sorted(path for path in found if path.name != "CHANGELOG.md")


def without_effect(read):
    """The options that options.md lists as without effect: no default is told of them."""
    text = read("docs/options.md").split("## Without effect")[1].split("\n## ")[0]
    return NAME.findall(text)


if __name__ == "__main__":
    sys.exit(main())
