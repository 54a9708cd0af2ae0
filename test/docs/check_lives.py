#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what docs/architecture.md tells with the code.

  check_lives.py CC NM WORK   builds lives.c with the library, traced, in the folder WORK

In each life of the document the functions are entered in the trace in that order, and each is
defined in the file that is named beside it. Each path that a document names exists.
Exit status 0: all as it should be; 1: not.
"""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
LIFE = re.compile(r"^<!-- life (\S+) -->\n((?:\d+\. .*\n(?:   .*\n)*)+)", re.MULTILINE)
STEP = re.compile(r"^\d+\. `(\w+)` \(`([^`]+)`\):", re.MULTILINE)
ITEM = re.compile(r"^\d+\. ", re.MULTILINE)
PATH = re.compile(r"`((?:src|test|bench|tools|cmake|docs|include|zig|rust)/[\w./-]+\.\w+)`")


def lives_of(text):
    """The lives that a text tells: name -> [(function, file)]."""
    lives = {}
    for name, steps in LIFE.findall(text):
        lives[name] = STEP.findall(steps)
        if len(lives[name]) != len(ITEM.findall(steps)):
            raise ValueError(f"{name}: a step without `function` (`file`):")
    return lives


def traces_of(text, symbols):
    """The traces in the output of lives.c: name -> [function]."""
    traces, trace = {}, []
    for line in text.splitlines():
        if line.startswith("life "):
            trace = traces.setdefault(line[5:], [])
        else:
            trace.append(symbols.get(int(line, 16), line))
    return traces


def missing_step(steps, trace):
    """The first function of the steps that the trace does not enter in its turn, or None."""
    rest = iter(trace)
    for function, _ in steps:
        if function not in rest:
            return function
    return None


def is_defined(function, text):
    """Whether a C source holds the definition of a function."""
    return re.search(rf"^[^\s#/][^;]*\b{function}\([^;]*?\) \{{", text, re.MULTILINE) is not None


def build_and_run(cc, nm, work):
    """What the traced program prints, and its symbols: address -> name."""
    work.mkdir(parents=True, exist_ok=True)
    program = work / "lives"
    subprocess.run([cc, "-O0", "-DNDEBUG", "-fno-pie", "-no-pie", "-finstrument-functions", "-w",
                    f"-I{SOURCE}/include", str(SOURCE / "src/static.c"), str(HERE / "lives.c"),
                    "-o", str(program), "-pthread"], check=True)
    out = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    table = subprocess.run([nm, str(program)], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in table.splitlines())
    return out, {int(row[0], 16): row[2] for row in rows if len(row) == 3 and row[1] in "tT"}


def check_lives(text, traces):
    """Complaints about the lives that a text tells."""
    lives = lives_of(text)
    if set(lives) != set(traces):
        yield f"told are {sorted(lives)}, traced {sorted(traces)}"
    for name, steps in lives.items():
        step = missing_step(steps, traces.get(name, []))
        if step:
            yield f"{name}: {step} is not entered in its turn"
        for function, file in steps:
            path = SOURCE / file
            if not path.is_file() or not is_defined(function, path.read_text()):
                yield f"{name}: {function} is not defined in {file}"


def check_paths(document):
    """Complaints about files that a document names and that are not there."""
    for path in PATH.findall(document.read_text()):
        if not (SOURCE / path).exists():
            yield f"{document.name}: there is no {path}"


def main():
    cc, nm, work = sys.argv[1:]
    out, symbols = build_and_run(cc, nm, pathlib.Path(work))
    architecture = SOURCE / "docs" / "architecture.md"
    complaints = list(check_lives(architecture.read_text(), traces_of(out, symbols)))
    documents = [p for p in (SOURCE / "docs").glob("*.md")]
    documents += [p for p in SOURCE.glob("*.md") if p.name != "CHANGELOG.md"]
    for document in documents:
        complaints += check_paths(document)
    print("\n".join(complaints) if complaints else "as it is told")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
