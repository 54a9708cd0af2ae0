#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Proves properties of the library's own source by bounded model checking, with CBMC.

  prove.py [--quick] [--build NAME]... [--seconds N] [--minutes N] [--jobs N] [--again] [--no-mutants]
           [--table FILE | --check-table FILE | --list] [--cbmc PROGRAM] [--get] [PROPERTY...]

A harness is a C function in a file of this folder that includes sources of the library, leaves its
input open and says what must be true of the outcome. The comment in front of it says what it proves:

  // prove: what is proved, in a sentence
  // bound: of which inputs
  // unwind: N           how often loops may turn, which is itself proved (2 where it is not said)
  // builds: NAME...     those of `builds` below in which it is proved; all, where it is not said
  // long: yes           takes minutes: left out by --quick
  // addresses: yes      pages and blocks are addresses that nobody reads, so pointers need not lead
  //                     into objects
  // cases: N            proved N times, with PROVE_CASE from 0 on; all have to hold (a mutant: one not)
  // objects: N          bits of a pointer that tell its object, where eight do not do
  // mutant: FILE: TEXT => OTHER
  //                     a change of the source that the harness must reject

Beside the harness' claims every access is shown to lie within its object, and no shift, signed sum,
division or pointer to be undefined. Of the processor the sources see C only: no instructions of its
own, and 32-bit builds as well as 64-bit ones are proved wherever the checker runs.

Each property is proved in its builds, and its mutant rejected in the first of them. Results are kept
in out/prove: what has not changed since is not proved again (--again: it is). --seconds bounds the
processor time of a proof, --minutes the time of all: what is then left is listed, and no failure,
unless its source cannot be read or calls a function that has no body.
Of several CBMCs the one of --cbmc is taken, of the variable CBMC, or the first of PATH; --get fetches
that of another release of Debian where there is none (tools/borrow.py).
--table writes the results into the table of a document, where what was not tried keeps its cell;
--check-table compares its rows with the harnesses.

Exit status 0: all that was tried is proved, and its mutants rejected; 1: not; 77: there is no CBMC.
"""

import argparse
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OUT = ROOT / "out" / "prove"

BUILDS = {
    "release64": ("64", ["-DNDEBUG"]),
    "release32": ("32", ["-DNDEBUG"]),
    "secure64": ("64", ["-DNDEBUG", "-DMI_SECURE=4"]),
    "secure32": ("32", ["-DNDEBUG", "-DMI_SECURE=4"]),
}
CHECKS = ["--bounds-check", "--div-by-zero-check", "--signed-overflow-check", "--undefined-shift-check",
          "--unwinding-assertions", "--slice-formula"]
POINTER_CHECKS = ["--pointer-check", "--pointer-overflow-check"]
GAP = re.compile(r".*(?:(?:PARSING|CONVERSION|TYPE) ERROR|Invalid User Input|no body for callee"
                 r"|body not available).*")
SPEC = re.compile(r"((?:^//.*\n)+)^void prove_(\w+)\(void\)", re.M)
MARKS = "<!-- proofs: begin (written by `make prove`) -->\n", "<!-- proofs: end -->\n"


class Wrong(Exception):
    """A harness that is not as it should be."""


@dataclasses.dataclass
class Property:
    name: str
    file: pathlib.Path
    prove: str = ""
    bound: str = "all inputs"
    unwind: str = "2"
    builds: str = " ".join(BUILDS)
    long: str = "no"
    addresses: str = "no"
    objects: str = ""
    cases: str = "1"
    mutant: str = ""

    def build_names(self):
        names = self.builds.split()
        if not names or not set(names) <= set(BUILDS):
            raise Wrong(f"{self.name}: builds: {self.builds}")
        return names

    def mutation(self):
        found = re.fullmatch(r"(\S+): (.+) => (.*)", self.mutant, re.S)
        if not found:
            raise Wrong(f"{self.name}: mutant: {self.mutant}")
        return found.groups()


def read_spec(text, prop):
    last = None
    for line in text.splitlines():
        found = re.match(r"// (prove|bound|unwind|builds|long|addresses|objects|cases|mutant): (.*)", line)
        if found:
            last = found[1]
            setattr(prop, last, found[2])
        elif last and line.startswith("//   "):
            setattr(prop, last, getattr(prop, last) + " " + line[2:].strip())
        else:
            last = None
    if not prop.prove:
        raise Wrong(f"{prop.name}: does not say what it proves")
    prop.mutation()
    return prop


def properties():
    found = []
    for file in sorted(HERE.glob("*.c")):
        for comment, name in SPEC.findall(file.read_text()):
            found.append(read_spec(comment, Property(name.replace("_", "-"), file)))
    return found


def find_cbmc(given):
    for name in (given, os.environ.get("CBMC"), "cbmc", str(ROOT / "out/tools/cbmc/cbmc")):
        program = shutil.which(name) if name else None
        if program:
            return program
    return None


def get_cbmc(given):
    found = find_cbmc(given)
    if found is None:
        print("Fetching CBMC from Debian 13 into out/tools ...", flush=True)
        subprocess.run([sys.executable, ROOT / "tools/borrow.py", "--suite", "trixie", "--into",
                        ROOT / "out/tools/cbmc", "cbmc", "cbmc", "minisat", "libc6", "libgcc-s1",
                        "libstdc++6", "zlib1g"], check=False)
    return find_cbmc(given)


# ---- one proof ---------------------------------------------------------------------------------

def preprocess(prop, build, source):
    """The text that the checker reads: of C's own headers only those that need no system."""
    bits, defines = BUILDS[build]
    compiler = os.environ.get("CC", "gcc").split()
    own = subprocess.run([*compiler, "-print-file-name=include"], stdout=subprocess.PIPE, text=True,
                         check=True).stdout.strip()
    done = subprocess.run(
        [*compiler, "-E", f"-m{bits}", "-std=gnu11", "-ffreestanding", "-nostdinc", "-isystem", own,
         "-isystem", ROOT / "src/os/nolibc", "-I", source, "-I", HERE, "-I", ROOT / "include", "-include",
         HERE / "prove.h", "-DMX_PROVE", "-D__CPROVER__", "-D_LIBC_LIMITS_H_", *defines,
         prop.file],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Wrong(f"{prop.name} ({build}): {done.stderr[-2000:]}")
    return done.stdout.replace(str(source), "src").replace(str(HERE), "prove")


def run_limited(command, seconds):
    """Output and processor seconds; stops when they are used up."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, preexec_fn=limit)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = status
        output.seek(0)
        return output.read(), usage.ru_utime + usage.ru_stime


@dataclasses.dataclass
class Task:
    prop: Property
    build: str
    is_mutant: bool
    seconds: int
    outcome: str = "left"  # proved, refuted, stopped, left
    took: float = 0
    text: str = ""


def mutated(prop, folder):
    """A copy of the sources with the change, which must apply exactly once."""
    name, text, other = prop.mutation()
    source = pathlib.Path(folder) / "src"
    shutil.copytree(ROOT / "src", source)
    before = (source / name).read_text()
    if before.count(text) != 1:
        raise Wrong(f"{prop.name}: the mutant's text occurs {before.count(text)} times in {name}")
    (source / name).write_text(before.replace(text, other))
    return source


def text_of(task):
    if not task.is_mutant:
        return preprocess(task.prop, task.build, ROOT / "src")
    with tempfile.TemporaryDirectory() as folder:
        return preprocess(task.prop, task.build, mutated(task.prop, folder))


def judge(output):
    if "VERIFICATION SUCCESSFUL" in output:
        return "proved"
    return "refuted" if "VERIFICATION FAILED" in output else "stopped"


def run_checker(task, command):
    """As run_limited, of a source that can be read and calls nothing that has no body."""
    output, took = run_limited(command, task.seconds)
    if gaps := GAP.findall(output):
        raise Wrong(f"{task.prop.name} ({task.build}): {gaps} {output[-2000:]}")
    return output, took


def perform(task, cbmc, version, again, in_time):
    """One case after the other, until one tells what becomes of all."""
    text = text_of(task)
    took = 0
    for case in range(int(task.prop.cases)):
        perform_case(task, text.replace("PROVE_CASE", str(case)), cbmc, version, again, in_time)
        took += task.took
        if task.outcome != "proved":
            break
    task.took = took


def perform_case(task, text, cbmc, version, again, in_time):
    """What is known from before needs no time."""
    task.outcome, task.took = "left", 0
    entry = [f"--{BUILDS[task.build][0]}", "--function", "prove_" + task.prop.name.replace("-", "_")]
    arguments = [*entry, "--unwind", task.prop.unwind, *CHECKS]
    if task.prop.objects:
        arguments += ["--object-bits", task.prop.objects]
    if task.prop.addresses == "no":
        arguments += POINTER_CHECKS
    if int(version.split(".")[0]) >= 6:
        arguments += ["--no-standard-checks"]  # those that are wanted are named
    key = hashlib.sha256("\0".join([version, *arguments, text]).encode()).hexdigest()[:32]
    kept = OUT / "kept" / key
    if kept.exists() and not again:
        known = json.loads(kept.read_text())
        if known["outcome"] != "stopped" or known["seconds"] >= task.seconds:
            task.outcome, task.took, task.text = known["outcome"], known["took"], known["text"]
            return
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / f"{task.prop.name}.i"
        file.write_text(text)
        # Takes a fraction of a second, so no proof for which there is no time has a gap.
        run_checker(task, [cbmc, *entry, "--drop-unused-functions", "--list-goto-functions", str(file)])
        if not in_time():
            return
        output, task.took = run_checker(task, [cbmc, *arguments, str(file)])
    task.outcome = judge(output)
    task.text = "\n".join(line for line in output.splitlines() if line.endswith(": FAILURE"))
    if task.outcome == "stopped" and not task.text:
        task.text = output[-400:]
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"outcome": task.outcome, "took": task.took, "text": task.text,
                                "seconds": task.seconds}))


# ---- all of them -------------------------------------------------------------------------------

def tasks_of(props, options):
    proofs, mutants = [], []
    for prop in props:
        if options.quick and prop.long == "yes":
            continue
        builds = [b for b in prop.build_names() if not options.build or b in options.build]
        proofs += [Task(prop, build, False, options.seconds) for build in builds]
        if not options.no_mutants and builds:
            mutants.append(Task(prop, builds[0], True, options.seconds))
    return proofs + mutants


def is_good(task):
    return task.outcome == ("refuted" if task.is_mutant else "proved")


def report(task):
    what = "mutant" if task.is_mutant else "proof"
    said = {"proved": "PROVED", "refuted": "refuted"}.get(task.outcome, task.outcome)
    verdict = "ok" if is_good(task) else said
    print(f"{task.prop.name:32} {task.build:10} {what:6} {task.took:7.1f} s  {verdict}", flush=True)
    if not is_good(task):
        print(task.text)


def perform_all(tasks, options, cbmc):
    version = subprocess.run([cbmc, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    end = time.monotonic() + options.minutes * 60 if options.minutes else None

    def one(task):
        perform(task, cbmc, version, options.again, lambda: end is None or time.monotonic() < end)
        if task.outcome != "left":
            report(task)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(one, task) for task in tasks]:
            done.result()
    return version


def summary(tasks):
    proofs = [t for t in tasks if not t.is_mutant]
    mutants = [t for t in tasks if t.is_mutant]
    print(f"{sum(map(is_good, proofs))} of {len(proofs)} proofs hold, "
          f"{sum(map(is_good, mutants))} of {len(mutants)} mutants are rejected, "
          f"{sum(t.outcome == 'stopped' for t in tasks)} stopped, "
          f"{sum(t.outcome == 'left' for t in tasks)} not tried")


# ---- the table ---------------------------------------------------------------------------------

def cell(task, before):
    if task is None or task.outcome == "left":
        return before
    if task.outcome == "stopped":
        return f"not within {task.seconds} s"
    return f"{max(task.took, 0.1):.1f} s" if is_good(task) else "**fails**"


def rows_of(document):
    """The cells of the table's rows."""
    return [re.split(r" *\| *", line)[1:-1] for line in document.splitlines() if line.startswith("| ")][2:]


def table(tasks, version, before):
    """Every property has a row, whether it was tried now or not."""
    found = {(t.prop.name, "mutant" if t.is_mutant else t.build): t for t in tasks}
    columns = (*BUILDS, "mutant")
    lines = [f"CBMC {version}. Times are processor seconds of a proof.", "",
             "| property | what is proved | bound | " + " | ".join(BUILDS) + " | mutant rejected |",
             "| --- | --- | --- |" + " --- |" * (len(BUILDS) + 1)]
    for prop in properties():
        old = dict(zip(columns, before.get(prop.name, [])))
        wanted = (*prop.build_names(), "mutant")
        cells = [cell(found.get((prop.name, c)), old.get(c) or "not tried") if c in wanted else ""
                 for c in columns]
        lines.append(f"| {prop.name} | {prop.prove} | {prop.bound} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write_table(path, tasks, version):
    document = pathlib.Path(path).read_text()
    head, rest = document.split(MARKS[0])
    old, tail = rest.split(MARKS[1])
    text = table(tasks, version, {row[0]: row[3:] for row in rows_of(old)})
    pathlib.Path(path).write_text(head + MARKS[0] + text + MARKS[1] + tail)


def check_table(path, props):
    rows = [row[:3] for row in rows_of(pathlib.Path(path).read_text())]
    wanted = [[p.name, p.prove, p.bound] for p in props]
    for row in rows:
        if row not in wanted:
            print(f"{path}: no harness proves this: {row}")
    for row in wanted:
        if row not in rows:
            print(f"{path}: has no such row: {row}")
    return 0 if sorted(rows) == sorted(wanted) else 1


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("-h", "--help", action="help")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--build", action="append", choices=BUILDS)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--no-mutants", action="store_true")
    parser.add_argument("--table")
    parser.add_argument("--check-table")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--cbmc")
    parser.add_argument("--get", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    try:
        props = [p for p in properties() if not options.names or p.name in options.names]
        if options.list and options.get:
            get_cbmc(options.cbmc)
        if options.list:
            for prop in props:
                print(f"{prop.name}: {prop.prove}")
            return 0
        if options.check_table:
            return check_table(options.check_table, props)
        cbmc = get_cbmc(options.cbmc) if options.get else find_cbmc(options.cbmc)
        if cbmc is None:
            print("There is no cbmc here: `make prove` gets it.")
            return 77
        tasks = tasks_of(props, options)
        version = perform_all(tasks, options, cbmc)
    except Wrong as wrong:
        print(wrong)
        return 1
    summary(tasks)
    if options.table:
        write_table(options.table, tasks, version)
    # What was stopped is no proof: but of long ones the table tells how far they came.
    bad = [t for t in tasks if not is_good(t) and t.outcome != "left" and
           not (t.outcome == "stopped" and t.prop.long == "yes")]
    return 1 if bad or not tasks else 0


if __name__ == "__main__":
    sys.exit(main())
