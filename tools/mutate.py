#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tells how much the tests would notice: changes the source in one place and runs them.

  mutate.py [--count N] [--seed N] [--minutes N] [--jobs N] [--tests NAME,...] [--survivors] FILE...

FILE is a .c of src. Its mutants: a condition negated, a comparison off by one, a statement dropped,
operands exchanged, an order of memory weakened, a return in place of a function's end. Each is compiled
and linked with the library's other objects, those of a debug and of a release build (a secure one, for what
that alone has) without the override floor, and with the tests that are known to reach the file: unit, api,
and the fuzz targets with their kept inputs. The first that fails, crashes or takes too long has killed it.
--count takes a sample of each file, the same for the same --seed.

Results are kept in out/mutate, so a run that was stopped goes on where it was; what the sources or tests
of a mutant were changed for is tried again. Prints a table by file, with --survivors the changes that
nobody noticed. Those are either equivalent, or a test is missing. A test that fails
without a change is left out. Exit status 0, or 1 when there is no other for a file.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "mutate"
BUILDS = {"release": ["-DNDEBUG"], "debug": ["-DMI_DEBUG=2"], "secure": ["-DNDEBUG", "-DMI_SECURE=4"]}
FLAGS = ["-std=gnu11", "-O1", "-w", "-D_GNU_SOURCE", "-DMI_STATIC_LIB", "-fno-builtin-malloc"]
SECONDS = 15, 600  # for one test: of the processor, and by the clock

# What reaches a file, the quickest first; the longest beginning of its name counts.
QUICK = ["fuzz/calls", "fuzz/threads", "api/edges", "api/arena", "api/subproc", "api/posix"]
GUARDED = ["api/guarded_calls", "api/guarded_handlers", "api/guarded_sampling"]
REACHED_BY = {
    "base/fmt": ["unit/test_fmt"],
    "base/sizeclass": ["unit/test_reciprocal", *QUICK],
    "mem/bitmap": ["unit/test_bitmap", "api/basic"],
    "alloc/guarded": [*GUARDED, *QUICK],
    "alloc/sample": [*GUARDED, *QUICK],
    "alloc/zeroblock": ["api/zero_sized", *QUICK],
    "alloc/harden": ["api/canary", *QUICK],
    "heap/fork": ["unit/test_fork_repair", *QUICK],
    "mem/pagemap": [*QUICK, "unit/test_many_pages"],
    "alloc/huge": [*QUICK, "api/moved", "api/mappings"],
    "heap/huge_cache": [*QUICK, "api/moved"],
    "arena/move": ["api/moved", "api/mappings", *QUICK],
    "": [*QUICK, "api/remote_ring", "api/heap_many"],
}
# What a secure build alone has.
HARDENED = ("alloc/guarded", "alloc/harden", "alloc/sample", "alloc/zeroblock", "page/freelist")


# ---- mutants -----------------------------------------------------------------------------------

def exchanged(line):
    """Operands of - in their other order."""
    found = re.search(r"(\b\w[\w>.-]*) - (\w[\w>.-]*\b)(?![\w(\[])", line)
    if found:
        yield line[:found.start()] + f"{found[2]} - {found[1]}" + line[found.end():]


def changes_of(line):
    """(kind, changed line) for one line of code."""
    for found in re.finditer(r"\b(if|while) \(", line):
        end = closing(line, found.end() - 1)
        if end is not None:
            yield "negate", line[:found.end()] + "!(" + line[found.end():end] + ")" + line[end:]
    for old, new in (("<=", "<"), (">=", ">"), (" < ", " <= "), (" > ", " >= "), (" == ", " != "),
                     (" && ", " || "), (" || ", " && ")):
        at = line.find(old)
        if at >= 0 and not line[at - 1:at + 4].strip().startswith(("<<", ">>", "->")):
            yield "compare", line[:at] + new + line[at + len(old):]
    found = re.search(r" ([+-]) 1\b", line)
    if found:
        yield "off by one", line[:found.start()] + line[found.end():]
    if re.fullmatch(r" +[\w>.*\[\]()-]+(\(.*\)| [+|&-]?= [^;]*|\+\+|--);", line) and "return" not in line:
        yield "drop", re.match(" *", line)[0] + ";"
    for changed in exchanged(line):
        yield "exchange", changed
    for old, new in (("_acquire(", "_relaxed("), ("store_release(", "store_relaxed(")):
        if old in line:
            yield "weaken", line.replace(old, new, 1)
    found = re.match(r"( +)return (?!0|NULL|false)(.+);$", line)
    if found:
        yield "answer", f"{found[1]}return 0;"


def closing(line, at):
    depth = 0
    for i in range(at, len(line)):
        depth += {"(": 1, ")": -1}.get(line[i], 0)
        if depth == 0:
            return i
    return None


def mutants_of(file):
    lines = (ROOT / "src" / file).read_text().splitlines()
    for number, line in enumerate(lines):
        code = line.split("//")[0].rstrip()
        if not line.startswith(" ") or not code.strip() or code.strip().startswith(("static const", "{\"")):
            continue
        for kind, changed in changes_of(code):
            yield number, kind, line, changed


# ---- building ----------------------------------------------------------------------------------

def compile_one(source, output, build, extra=()):
    return subprocess.run([*os.environ.get("CC", "gcc").split(), *FLAGS, *BUILDS[build], *extra, "-I",
                           ROOT / "include", "-I", ROOT / "src", "-c", source, "-o", output],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def fresh_object(source, name, build):
    """The object of an unchanged source, made where it is not there."""
    digest = hashlib.sha256((source.read_text() + STAMP + build).encode()).hexdigest()[:16]
    output = OUT / "objects" / f"{name}-{build}-{digest}.o"
    if not output.exists():
        output.parent.mkdir(parents=True, exist_ok=True)
        part = output.with_suffix(f".{os.getpid()}-{threading.get_ident()}.part")
        if not compile_one(source, part, build):
            raise SystemExit(f"does not compile: {source}")
        part.rename(output)
    return output


def objects_of(build, without=None):
    found = []
    for source in sorted((ROOT / "src").glob("*/*.c")):
        name = source.relative_to(ROOT / "src").as_posix()
        if name.startswith("override/") or name == without:
            continue
        found.append(fresh_object(source, name.replace("/", "-")[:-2], build))
    return found


def stamp():
    """Changes with every header: objects are made anew then."""
    text = "".join(f.read_text() for folder in ("src", "include", "test/api", "test/fuzz")
                   for f in sorted((ROOT / folder).rglob("*.h")))
    return hashlib.sha256(text.encode()).hexdigest()


STAMP = stamp()


def tests_of(file, chosen):
    if chosen:
        return chosen.split(",")
    return REACHED_BY[max((p for p in REACHED_BY if file.startswith(p)), key=len)]


def builds_of(file):
    return ("debug", "secure") if file.startswith(HARDENED) else ("debug", "release")


def parts_of(test):
    """Sources and arguments of a test."""
    if not test.startswith("fuzz/"):
        return [f"{test}.c"], []
    corpus = ROOT / "test/fuzz/corpus" / test.split("/")[1]
    return [f"{test}.c", "fuzz/replay.c"], [*([corpus] if corpus.exists() else []), "--random", "30", "1"]


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS[0], SECONDS[0]))


def killed_by(test, build, objects, folder):
    """Whether a test fails with these objects."""
    program = pathlib.Path(folder) / "program"
    sources, arguments = parts_of(test)
    own = [fresh_object(ROOT / "test" / s, s.replace("/", "-")[:-2], build) for s in sources]
    linked = subprocess.run(["gcc", "-o", program, *own, *objects, "-lpthread"], stderr=subprocess.DEVNULL)
    if linked.returncode != 0:
        raise SystemExit(f"does not link: {test}")
    try:
        done = subprocess.run([program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              stdin=subprocess.DEVNULL, cwd=folder, timeout=SECONDS[1], preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode not in (0, 77)


PASSES = {}


def passes(test, build):
    """Whether a test passes as it is: one that does not tells nothing."""
    if (test, build) not in PASSES:
        with tempfile.TemporaryDirectory() as folder:
            PASSES[test, build] = not killed_by(test, build, objects_of(build), folder)
        if not PASSES[test, build]:
            print(f"{test} ({build}) fails without any change: left out", file=sys.stderr)
    return PASSES[test, build]


def judge(file, mutant, tests):
    """Who kills a mutant: BUILD TEST; "compiler", or None."""
    number, _, _, changed = mutant
    lines = (ROOT / "src" / file).read_text().splitlines()
    lines[number] = changed
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / pathlib.Path(file).name
        source.write_text("\n".join(lines) + "\n")
        for build in builds_of(file):
            own = pathlib.Path(folder) / f"{build}.o"
            if not compile_one(source, own, build, ["-iquote", ROOT / "src" / pathlib.Path(file).parent]):
                return "compiler"
            objects = [own, *objects_of(build, file)]
            for test in tests:
                if passes(test, build) and killed_by(test, build, objects, folder):
                    return f"{build} {test}"
    return None


# ---- all of them -------------------------------------------------------------------------------

def try_all(file, options, end):
    tests = tests_of(file, options.tests)
    if not any(passes(test, build) for build in builds_of(file) for test in tests):
        raise SystemExit(f"no test of {file} passes without any change")
    mutants = list(mutants_of(file))
    random.Random(options.seed).shuffle(mutants)
    kept = OUT / "results" / (file.replace("/", "-") + ".json")
    kept.parent.mkdir(parents=True, exist_ok=True)
    state = hashlib.sha256((STAMP + (ROOT / "src" / file).read_text() + ",".join(tests)).encode()).hexdigest()
    known = json.loads(kept.read_text()) if kept.exists() else {}
    results = known.get("results", {}) if known.get("state") == state else {}

    def one(mutant):
        key = f"{mutant[0] + 1}: {mutant[1]}: {mutant[3].strip()}"
        if key not in results and (end is None or time.monotonic() < end):
            results[key] = judge(file, mutant, tests)
            kept.write_text(json.dumps({"state": state, "results": dict(results)}, indent=1))
        return key
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        keys = list(pool.map(one, mutants[:options.count]))
    return len(mutants), {key: results[key] for key in keys if key in results}


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("-h", "--help", action="help")
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tests")
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    end = time.monotonic() + options.minutes * 60 if options.minutes else None
    print("| file | mutants | tried | killed | by |\n| --- | --- | --- | --- | --- |")
    for name in options.files:
        file = name.split("src/")[-1]
        count, results = try_all(file, options, end)
        tried = {k: by for k, by in results.items() if by != "compiler"}
        by = collections.Counter(b.split()[1].split("/")[0] for b in tried.values() if b)
        share = f"{sum(by.values())} ({100 * sum(by.values()) // len(tried)} %)" if tried else "0"
        print(f"| {file} | {count} | {len(tried)} | {share} | "
              f"{', '.join(f'{b} {n}' for b, n in by.most_common())} |", flush=True)
        for key in sorted(k for k, b in tried.items() if b is None and options.survivors):
            print(f"    survived: {key}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
