#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Judges the library's small protocols between threads by herd7, a tool that others wrote.

  litmus.py [--herd PROGRAM] [--get] [--table FILE | --check-table FILE | --list] [TEST...]

The explorer of test/explore runs the library's own source under a memory model that is the project's
own, too. This is the second opinion: each file of test/prove/litmus is one protocol as a litmus test, in
C under the model RC11 or in AArch64's instructions under Arm's model, whose outcome `exists` must never
be, and which must have no data race. Its head says:

  // says: what is shown
  // source: FILE: TEXT     a line of the library that the test transcribes, which must still be there
  // mutant: TEXT => OTHER  a weaker protocol, in which herd7 must find the outcome, or a race

In tests of AArch64 a thread is a line of instructions. [M] is a barrier in all threads (membarrier), which
meets the other thread at one of the places [B]: the test is judged for each of them.

--get fetches herd7 where there is none; --list only names the tests; --check-table asks, without
herd7, whether the table in a document and the lines of the library are those of the tests.

Exit status 0: no outcome that must not be, every mutant found out; 1: not; 77: no herd7 here.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BORROWED = ROOT / "out/tools/herd"
MODELS = {"C": ("rc11.cat", "RC11"), "AArch64": ("aarch64.cat", "Arm")}
MET = ["LDR W9,[X7]", "DMB SY", "MOV W10,#1", "STR W10,[X8]"]
BARRIER = ["DMB SY", "MOV W10,#1", "STR W10,[X7]", "LDR W9,[X8]", "DMB SY"]
MARKS = "<!-- litmus: begin (written by test/prove/litmus.py) -->\n", "<!-- litmus: end -->\n"


class Test:
    def __init__(self, file):
        self.name, self.heads, lines = file.stem, [], []
        for line in file.read_text().splitlines():
            found = re.match(r"// (says|source|mutant): (.*)", line)
            if found:
                self.heads.append([found[1], found[2]])
            elif line.startswith("//   "):
                self.heads[-1][1] += " " + line[2:].strip()
            else:
                lines.append(line)
        self.text = "\n".join(lines) + "\n"
        self.model, self.model_name = MODELS[self.text.split()[0]]

    def of(self, kind):
        return [text for known, text in self.heads if known == kind]

    def stale(self):
        """Lines of the library that are not there any more."""
        for source in self.of("source"):
            name, text = source.split(": ", 1)
            if text not in " ".join((ROOT / name).read_text().split()):
                yield source

    def mutants(self):
        for mutant in self.of("mutant"):
            text, other = mutant.split(" => ")
            if self.text.count(text) != 1:
                raise SystemExit(f"{self.name}: occurs {self.text.count(text)} times: {text}")
            yield mutant, self.text.replace(text, other)


def columns(text):
    """Threads that are lines of instructions as herd7's columns, once for each place of the barrier."""
    threads = re.findall(r"^P\d: (.*)$", text, re.M)
    if not threads:
        return [text]
    head, tail = text[:text.index("P0: ")], text[text.rindex("exists"):]
    found = []
    for place in range(threads[0].count("[B]")):
        rows = []
        for thread in threads:
            row, met = [], 0
            for part in thread.split("; "):
                if part == "[B]":
                    row += MET if met == place else []
                    met += 1
                else:
                    row += BARRIER if part == "[M]" else [part]
            rows.append(row)
        count = max(map(len, rows))
        lines = [" | ".join(r[i] if i < len(r) else "" for r in rows) + " ;" for i in range(count)]
        found.append(head + " | ".join(f"P{i}" for i in range(len(rows))) + " ;\n" +
                     "\n".join(lines) + "\n" + tail)
    return found


def judge(herd, model, text):
    """Whether the outcome can be, or there is a race; and of how many states."""
    bad, states = False, 0
    for one in columns(text):
        with tempfile.NamedTemporaryFile("w", suffix=".litmus") as file:
            file.write(one)
            file.flush()
            done = subprocess.run([*herd, "-model", model, file.name], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
        found = re.search(r"^Observation \S+ (\w+) ", done.stdout, re.M)
        if found is None:
            raise SystemExit(f"herd7 does not understand:\n{one}\n{done.stdout}")
        bad = bad or found[1] != "Never" or "Flag" in done.stdout
        states += int(re.search(r"^States (\d+)", done.stdout, re.M)[1])
    return bad, states


def find_herd(given, get):
    for name in (given, os.environ.get("HERD"), "herd7"):
        if name and shutil.which(name):
            return [name]
    if not (BORROWED / "herd7").exists() and get:
        print("Fetching herd7 from Debian sid into out/tools ...", flush=True)
        subprocess.run([sys.executable, ROOT / "tools/borrow.py", "--suite", "sid", "--into", BORROWED,
                        "herd7", "herdtools7", "libc6", "libgmp10"], check=False)
    if (BORROWED / "herd7").exists():
        return [str(BORROWED / "herd7"), "-set-libdir",
                str(BORROWED / "root/usr/share/herdtools7/herd")]
    return None


def row_of(test):
    return f"| {test.name} | {test.of('says')[0]} | {test.model_name} |"


def check_table(path, tests):
    text = pathlib.Path(path).read_text().split(MARKS[0])[1].split(MARKS[1])[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    for line in rows:
        if not any(line.startswith(row_of(t)) for t in tests):
            print(f"{path}: there is no such test: {line}")
    for test in tests:
        if not any(line.startswith(row_of(test)) for line in rows):
            print(f"{path}: has no row {row_of(test)}")
    stale = [is_stale(test) for test in tests]
    return 0 if not any(stale) and len(rows) == len(tests) and all(
        any(line.startswith(row_of(t)) for line in rows) for t in tests) else 1


def is_stale(test):
    gone = list(test.stale())
    for source in gone:
        print(f"{test.name}: the library has this no more: {source}")
    return bool(gone)


def run_all(tests, herd):
    failed, rows = False, ["| protocol | what is shown | model | states | weaker ones found out |",
                           "| --- | --- | --- | --- | --- |"]
    for test in tests:
        failed = is_stale(test) or failed
        bad, states = judge(herd, test.model, test.text)
        missed = [said for said, text in test.mutants() if not judge(herd, test.model, text)[0]]
        count = len(test.of("mutant"))
        print(f"{test.name:20} {states:3} states  {'FAILS' if bad else 'never'}  "
              f"{count - len(missed)} of {count} mutants found out")
        for said in missed:
            print(f"  not found out: {said}")
        failed = failed or bad or bool(missed)
        rows.append(f"{row_of(test)} {states} | {count - len(missed)} of {count} |")
    return failed, "\n".join(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("-h", "--help", action="help")
    parser.add_argument("--herd")
    parser.add_argument("--get", action="store_true")
    parser.add_argument("--table")
    parser.add_argument("--check-table")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    tests = [Test(f) for f in sorted((HERE / "litmus").glob("*.litmus"))
             if not options.names or f.stem in options.names]
    if options.check_table:
        return check_table(options.check_table, tests)
    herd = find_herd(options.herd, options.get)
    if options.list:
        print("\n".join(test.name for test in tests))
        return 0
    if herd is None:
        print("There is no herd7 here: `make prove` gets it.")
        return 77
    failed, table = run_all(tests, herd)
    if options.table:
        head, rest = pathlib.Path(options.table).read_text().split(MARKS[0])
        pathlib.Path(options.table).write_text(head + MARKS[0] + table + MARKS[1] + rest.split(MARKS[1])[1])
    return 1 if failed or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
