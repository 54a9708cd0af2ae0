#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what docs/architecture.md tells with the code.

  check_lives.py CC NM WORK   builds lives.c with the library, traced, in the folder WORK

In each life of the document the functions are entered in the trace in that order, and each is
defined in the file that is named beside it. No caller is left out: those that are active between a
step and the nearest function around it that is a step stand in its words or those before, as
`function`, or are steps themselves. What a function calls and is done with before the next step is
not asked for: helpers, mostly. The table of floors has those of src/. Each path that a document
names exists. Exit status 0: all as it should be; 1: not.
"""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
LIFE = re.compile(r"^<!-- life (\S+) -->\n((?:\d+\. .*\n(?:   .*\n)*)+)", re.MULTILINE)
ITEM = re.compile(r"^\d+\. .*\n(?:   .*\n)*", re.MULTILINE)
STEP = re.compile(r"\d+\. `(\w+)` \(`([^`]+)`\):")
WORD = re.compile(r"`(\w+)`")
PATH = re.compile(r"`((?:src|test|bench|tools|cmake|docs|include|zig|rust)/[\w./-]+\.\w+)`")


def lives_of(text):
    """The lives that a text tells: name -> [(function, file, all names in its words)]."""
    lives = {}
    for name, steps in LIFE.findall(text):
        lives[name] = []
        for item in ITEM.findall(steps):
            step = STEP.match(item)
            if not step:
                raise ValueError(f"{name}: a step without `function` (`file`):")
            lives[name].append((step[1], step[2], set(WORD.findall(item))))
    return lives


def traces_of(text, symbols):
    """The traces in the output of lives.c: name -> [(function, functions around it)]."""
    traces, trace = {}, []
    for line in text.splitlines():
        if line.startswith("life "):
            trace, around = traces.setdefault(line[5:], []), []
        else:
            address, depth = line.split()
            name = symbols.get(int(address, 16), address)
            around = [*around[:int(depth)], name]
            trace.append((name, around[:-1]))
    return traces


def step_faults(steps, trace):
    """What is wrong with the order of steps, and with the callers that they name."""
    functions = {function for function, _, _ in steps}
    rest, start, said = iter(trace), None, set()
    for function, _, words in steps:
        around = next((around for name, around in rest if name == function), None)
        if around is None:
            yield f"{function} is not entered in its turn"
            return
        start = len(around) if start is None else start
        for caller in reversed(around[start:]):
            if caller in functions:
                break
            if caller not in said | words:
                yield f"{function} is entered by {caller}, which is left out"
        said |= words


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
        for fault in step_faults(steps, traces.get(name, [])):
            yield f"{name}: {fault}"
        for function, file, _ in steps:
            path = SOURCE / file
            if not path.is_file() or not is_defined(function, path.read_text()):
                yield f"{name}: {function} is not defined in {file}"


def check_floors(text):
    """Complaints about floors without a row in the table of them, and rows without a floor."""
    table = text.partition("\n## Floors\n")[2].partition("\n## ")[0]
    rows = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    floors = {path.name for path in (SOURCE / "src").iterdir() if path.is_dir()}
    for name in sorted(rows ^ floors):
        yield f"floors: {name} is {'only told' if name in rows else 'left out'}"


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
    complaints += check_floors(architecture.read_text())
    documents = [p for p in (SOURCE / "docs").glob("*.md")]
    documents += [p for p in SOURCE.glob("*.md") if p.name != "CHANGELOG.md"]
    for document in documents:
        complaints += check_paths(document)
    print("\n".join(complaints) if complaints else "as it is told")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
