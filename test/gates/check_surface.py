#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that every public function is declared, exported and tested.

  check_surface.py [--shared LIBRARY] [--print]

Makes a table with a row for each function that include/mimalloc.h, mimalloc-prof.h and mimalloc-stats.h declare: is
it exported (by the library if one is given, else by test/api/public-symbols.txt), and which test
programs use it. The sources that only compile or list the interface, test/api/headers, are no
tests. A use is the name in the code of a test, outside comments and strings.

Prints one line for each row with an empty field, with --print the whole table first; exit status 0
without an empty field, 1 with some. NM names another tool.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HEADERS = ("include/mimalloc.h", "include/mimalloc-prof.h", "include/mimalloc-stats.h")
LISTED = "test/api/public-symbols.txt"
# Folders whose programs call the library by its public names.
TESTS = ("test/api", "test/unit", "test/stress", "test/memory", "test/profile")
NO_TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
DECLARED = re.compile(r"mi_decl_export\b[^;{}]*?\b(mi_\w+)\s*\((?!\s*mi_cdecl)")
NAME = re.compile(r"\bmi_\w+")


def code(text):
    """The text without comments and strings."""
    return NO_TEXT.sub(" ", text)


def declared(texts):
    """The functions that headers declare; attributes with arguments are none."""
    names = set()
    for text in texts:
        text = re.sub(r"^\s*#.*$", "", code(text), flags=re.MULTILINE)
        names |= {name for name in DECLARED.findall(text) if not name.startswith("mi_attr_")}
    return names


def exported(library):
    listing = subprocess.run([os.environ.get("NM", "nm"), "-D", "-P", "--defined-only", library],
                             check=True, text=True, stdout=subprocess.PIPE).stdout
    return {line.split()[0].split("@")[0] for line in listing.splitlines() if line}


def users(names, sources):
    """For each name the sources that use it; `sources` are pairs of a name and a text."""
    table = {name: [] for name in names}
    for source, text in sources:
        for name in sorted(set(NAME.findall(code(text))) & names):
            table[name].append(source)
    return table


def empty_fields(table, found):
    """One line for each empty field."""
    for name in sorted(found - set(table)):
        if name.startswith("mi_"):
            yield f"{name}: exported, but no header declares it"
    for name, sources in sorted(table.items()):
        if name not in found:
            yield f"{name}: declared, but not exported"
        if not sources:
            yield f"{name}: no test uses it"


def test_sources(root):
    for folder in TESTS:
        for path in sorted((root / folder).rglob("*.c*")):
            if path.suffix in (".c", ".cpp") and path.parent.name != "headers":
                yield path.relative_to(root / "test").as_posix(), path.read_text()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=pathlib.Path)
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    names = declared((ROOT / header).read_text() for header in HEADERS)
    found = exported(options.shared) if options.shared else set((ROOT / LISTED).read_text().split())
    table = users(names, test_sources(ROOT))
    if options.print:
        for name, sources in sorted(table.items()):
            print(f"{name:44} {'exported' if name in found else '-':9} {' '.join(sources)}")
    problems = list(empty_fields(table, found))
    for line in problems:
        print(line)
    print(f"{len(table)} public functions, {len(problems)} empty fields")
    return 1 if problems or not table else 0


if __name__ == "__main__":
    sys.exit(main())
