#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the twins: each misuse of twins/ beside the same program without it, under each allocator.

  twins.py                                       every build of ours and every peer that is found
  twins.py --table docs/hardening.md             the same, and writes the tables of the document
  twins.py --check-table docs/hardening.md       whether its rows are those of the programs
  twins.py --only --lib mine=FILE --at-least N   a gate: of the cases in C and C++, as there may be no
                                                 Rust, N are stopped every time, and no false alarm
  twins.py --attacks FILE                        each attack works on FILE or on the C library

--row REGEX, --size N and --case REGEX choose; --repeat N runs each misuse N times, as many an
allocator stops one by chance; --matrix prints how each case ended, --shares how often it was stopped,
in percent; --keep FILE keeps what was found in FILE and has it from there as long as library, programs
and N are the same. Peers come from the system, from
clang (scudo) and from the folder that peers.py fills; those that are not there are named. Exit status: 0
done, 1 a gate failed, 2 nothing could be measured, 77 what it needs is not installed.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import types

import score

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
sys.path.insert(0, str(PROJECT / "bench" / "peers"))
import peers  # noqa: E402
SOURCES = ["far.c", "ends.c", "freed.c", "pointers.c", "cpp.cpp", "rust.rs", "attacks.c"]
# Compilers see some of the misuse.
FLAGS = [*score.FLAGS, "-w"]
OURS = {"release": "release", "secure": "secure", "full": "secure-full"}
SYSTEM = {"jemalloc": "libjemalloc.so.2", "mimalloc 2.0.9": "libmimalloc.so.2.0"}
BUILT = {"hardened_malloc": "hardened_malloc.so", "mimalloc 3 secure": "mimalloc-secure.so",
         "snmalloc checks": "snmalloc-checks.so"}
MARKS = ("<!-- twins: begin -->\n", "<!-- twins: end -->\n")
# How one run ended, and its sign. What is stopped: the first three.
SIGNS = {"at once": "●", "later": "◑", "nothing": "○", "told": "!", "missed": "·", "hang": "∞",
         "broken": "?"}
SIZES = {"24": "small", "4000": "medium", "200000": "large", "8388608": "huge"}
STOPPED = ("at once", "later", "nothing")
SOMETIMES = "~"


@dataclasses.dataclass(frozen=True)
class Case:
    """One misuse at one size."""
    program: pathlib.Path
    name: str
    row: str
    about: str
    size: str

    @property
    def label(self):
        return f"{self.name} {self.size}"


# ---- the set -----------------------------------------------------------------------------------

def compile_one(source, folder):
    out = folder / source.replace(".", "-")
    path = HERE / "twins" / source
    if source.endswith(".rs"):
        rustc = shutil.which(os.environ.get("RUSTC", "rustc"))
        if rustc is None:
            return None
        command = [rustc, "-O", "-o", str(out), str(path)]
    elif source.endswith(".cpp"):
        command = [os.environ.get("CXX", "c++"), "-std=c++17", "-fsized-deallocation", *FLAGS,
                   "-o", str(out), str(path)]
    else:
        command = [os.environ.get("CC", "cc"), "-std=gnu11", *FLAGS, "-o", str(out), str(path)]
    subprocess.run(command, check=True)
    return out


def cases_of(program):
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    cases = []
    for line in listed.stdout.splitlines():
        name, row, about, sizes = line.split("\t")
        cases += [Case(program, name, row, about, size) for size in sizes.split(",")]
    return cases


def read_set(folder, jobs, names=tuple(SOURCES)):
    """Compiles the programs; returns the cases and the sources that no compiler was found for."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        programs = list(pool.map(lambda source: compile_one(source, folder), names))
    missing = [source for source, program in zip(names, programs) if program is None]
    return [c for program in programs if program for c in cases_of(program)], missing


# ---- running -----------------------------------------------------------------------------------

def ended(status, out, err):
    """How a run with the misuse ended."""
    lines = out.splitlines()
    if "broken" in lines or "ready" not in lines:
        return "broken"
    if any(line.startswith("gone") for line in lines):
        return "nothing"
    if status is None:
        return "hang"
    if "done" not in lines:
        return "at once"
    if status != 0 or "end" not in lines:
        return "later"
    return "told" if score.REPORT.search(err) else "missed"


def run_case(case, library, options):
    """The outcomes of all runs of a case, and what its twin said if that is a false alarm."""
    argv = [str(case.program), case.name, case.size]
    status, out, err = score.execute([*argv, "right"], library, {}, options.timeout)
    alarm = None
    if status != 0 or "end" not in out.splitlines() or "gone" in out or err:
        alarm = f"status {status}: {(out + err).strip()[:300]}"
    outcomes = [ended(*score.execute([*argv, "wrong"], library, {}, options.timeout))
                for _ in range(options.repeat)]
    return collections.Counter(outcomes), alarm


def stopped(counts):
    """All, some or none."""
    share = sum(counts[o] for o in STOPPED)
    return "all" if share == sum(counts.values()) else ("some" if share else "none")


def fingerprint(library, options):
    """Changes whenever results may."""
    parts = [HERE / "twins" / "twin.h", *(HERE / "twins" / source for source in SOURCES)]
    digest = hashlib.sha256(f"{library.name} {options.repeat} {platform.libc_ver()}".encode())
    for path in [*parts, *([library.path] if library.path else [])]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def keep_results(library, cases, options, control):
    """As run_library, by what is kept if all cases are."""
    if options.keep is None:
        return run_library(library, cases, options, control)
    kept = json.loads(options.keep.read_text()) if options.keep.exists() else {}
    mark = fingerprint(library, options)
    known = kept.get(mark, {})
    if all(c.label in known for c in cases):
        return {c: (collections.Counter(known[c.label][0]), known[c.label][1]) for c in cases}, None
    result, problem = run_library(library, cases, options, control)
    if result:
        kept[mark] = {**known, **{c.label: found for c, found in result.items()}}
        options.keep.parent.mkdir(parents=True, exist_ok=True)
        options.keep.write_text(json.dumps(kept))
    return result, problem


def run_library(library, cases, options, control):
    problem = score.check_control(library, {"control": control},
                                  types.SimpleNamespace(env={}, timeout=options.timeout))
    if problem:
        return None, problem
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda c: run_case(c, library, options), cases))
    return dict(zip(cases, results)), None


# ---- what there is to run ----------------------------------------------------------------------

def scudo():
    machine = os.uname().machine
    found = sorted(pathlib.Path("/usr/lib").glob(
        f"llvm-*/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-{machine}.so"))
    return found[-1] if found else None


def libraries(options):
    """Pairs of a library and None, or of a name and why it is left out."""
    given = [score.Library(name, pathlib.Path(path).absolute()) for name, path in options.lib]
    if options.only:
        return given, []
    found, absent = [], []
    candidates = [(name, score.our_library(PROJECT / "out" / build)) for name, build in OURS.items()]
    candidates += [(name, path) for name, path in
                   [(n, options.peers / file) for n, file in BUILT.items()]]
    candidates += [("scudo", scudo())]
    candidates += [(name, score.find_peer(file)) for name, file in SYSTEM.items()]
    for name, path in candidates:
        if path is not None and path.exists():
            found.append(score.Library(name, path))
        else:
            absent.append(name)
    ours = [library for library in found if library.name in OURS]
    rest = [library for library in found if library.name not in OURS]
    return ours + given + rest + [score.Library("glibc")], absent


def versions(names):
    """What the peers are, as far as the place they come from tells."""
    said = []
    for name in names:
        if name in BUILT:
            peer = peers.PEERS[pathlib.Path(BUILT[name]).stem]
            said.append(f"{name}: {peer.package} {peer.version}")
        elif name == "scudo":
            said.append(f"scudo: clang {scudo().parent.parent.parent.name}")
        elif name == "glibc":
            said.append(f"glibc {platform.libc_ver()[1]}")
    return said


# ---- tables ------------------------------------------------------------------------------------

def row_of(cells):
    return "| " + " | ".join(str(c) for c in cells) + " |"


def cell(result, cases):
    counts = collections.Counter(stopped(result[c][0]) for c in cases)
    return f"{counts['all']} +{counts['some']}" if counts["some"] else str(counts["all"])


def grouped(cases, key):
    groups = {}
    for c in cases:
        groups.setdefault(key(c), []).append(c)
    return groups


def table(results, cases, title, key):
    names = list(results)
    lines = [row_of([title, "of", *names]), row_of(["---"] + ["---:"] * (len(names) + 1))]
    for group, members in grouped(cases, key).items():
        lines.append(row_of([group, len(members), *(cell(results[n], members) for n in names)]))
    lines.append(row_of(["all", len(cases), *(cell(results[n], cases) for n in names)]))
    return lines


def kind_of_block(case):
    if case.row.startswith("attack"):
        return "attacks"
    return f"{SIZES[case.size]}: {int(case.size):,}"


def alarms_of(results):
    return [(name, case, alarm) for name, result in results.items()
            for case, (_, alarm) in result.items() if alarm]


def sizes_said(result, members, those):
    """Of a case's sizes those that get through; no word where all of them do, every time."""
    never = [c for c in those if stopped(result[c][0]) == "none"]
    if len(never) == len(members):
        return ""
    return " (" + ", ".join(("" if c in never else SOMETIMES) + SIZES[c.size] for c in those) + ")"


def missed_lines(results, cases):
    """What gets through the hardened builds, by row."""
    lines = []
    by_name = grouped(cases, lambda c: c.name)
    for name in (n for n in ("secure", "full") if n in results):
        lines += ["", f"What gets through {name} at all sizes or those named, always or ({SOMETIMES}) "
                  "sometimes:", ""]
        through = [c for c in cases if stopped(results[name][c][0]) != "all"]
        for row, members in grouped(through, lambda c: c.row).items():
            said = [case + sizes_said(results[name], by_name[case], those)
                    for case, those in grouped(members, lambda c: c.name).items()]
            lines.append(f"- {row}: {', '.join(said)}")
    return lines


def report(results, cases, absent, options):
    alarms = alarms_of(results)
    lines = [f"{len(cases)} cases, each misuse {options.repeat} times under each allocator. A cell "
             "counts the cases that were stopped every time: at once, later, or the misuse came to "
             "nothing; `+` those that were stopped sometimes."]
    lines += [f"{'; '.join(versions(results))}."] if versions(results) else []
    if absent:
        lines.append(f"Not present: {', '.join(absent)}.")
    lines += [f"False alarms, of {len(cases)} controls each: " +
              ", ".join(f"{name} {sum(a[0] == name for a in alarms)}" for name in results) + ".", ""]
    lines += table(results, cases, "misuse", lambda c: c.row)
    lines += ["", *table(results, cases, "block", kind_of_block)]
    attacks = [c for c in cases if c.row.startswith("attack")]
    if attacks:
        lines += ["", *table(results, attacks, "attack", lambda c: f"{c.name}: {c.about}")]
    return "\n".join(lines + missed_lines(results, cases)) + "\n"


def matrix(results, cases):
    names = list(results)
    lines = [", ".join(f"{sign} {word}" for word, sign in SIGNS.items()) +
             f", {SOMETIMES} not always the same", "", row_of(["case", *names]),
             row_of(["---"] * (len(names) + 1))]
    for c in cases:
        counters = [results[n][c][0] for n in names]
        lines.append(row_of([c.label, *("".join(SIGNS[o] for o in SIGNS if o in k) for k in counters)]))
    return "\n".join(lines)


def shares(results, cases):
    names = list(results)
    lines = [row_of(["stopped, %", *names]), row_of(["---"] + ["---:"] * len(names))]
    for c in cases:
        counters = [results[n][c][0] for n in names]
        lines.append(row_of([c.label, *(f"{100 * sum(k[o] for o in STOPPED) / sum(k.values()):.1f}"
                                        for k in counters)]))
    return "\n".join(lines)


def write_table(path, text):
    document = path.read_text()
    head, rest = document.split(MARKS[0])
    path.write_text(head + MARKS[0] + text + MARKS[1] + rest.split(MARKS[1])[1])


def check_table(path, cases, missing):
    """The rows of the document and how many cases each has are those of the programs."""
    text = path.read_text().split(MARKS[0])[1].split(MARKS[1])[0]
    said = {}
    for line in text.split("| attack |")[0].splitlines():
        cells = re.split(r" *\| *", line)
        if line.startswith("| ") and cells[2].isdigit():
            said.setdefault(cells[1], int(cells[2]))
    wanted = {row: len(members) for row, members in grouped(cases, lambda c: c.row).items()}
    known = {row: n for row, n in said.items() if row in wanted}
    others = set(said) - set(wanted) - {"all"} - {kind_of_block(c) for c in cases}
    if "rust.rs" in missing:
        others = {row for row in others if not row.startswith("Rust")}
    for row in sorted(set(wanted) - set(known)) + sorted(others):
        print(f"{path}: rows differ: {row}")
    for row, n in known.items():
        if n != wanted[row]:
            print(f"{path}: {row}: the table says {n} cases, the programs have {wanted[row]}")
    return 0 if known == wanted and not others else 1


# ---- gates -------------------------------------------------------------------------------------

def gate(results, cases, options):
    status = 0
    for name, case, alarm in alarms_of(results):
        print(f"{name}: false alarm in the twin of {case.label}: {alarm}")
        status = 1 if options.only else status
    for name in results:
        broken = [c.label for c in cases if results[name][c][0]["broken"]]
        if broken:
            print(f"{name}: could not be prepared: {', '.join(broken)}")
            status = 1 if options.only else status
        count = sum(stopped(results[name][c][0]) == "all" for c in cases
                    if not c.program.name.endswith("-rs"))
        if options.at_least is not None and count < options.at_least:
            print(f"{name}: {count} in C and C++ stopped, at least {options.at_least} are required")
            status = 1
    return status


# What the C library stops, too, from this version on at the latest (2.36 does not).
GLIBC_STOPS = {"poison-mangled": (2, 43), "spirit-pages": (2, 43)}


def glibc_version():
    return tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")[:2]))


def check_attacks(path, cases, options, control):
    """An attack that works nowhere shows nothing where it fails."""
    targets = [score.Library("it", pathlib.Path(path).absolute()), score.Library("glibc")]
    results = [run_library(library, cases, options, control)[0] for library in targets]
    status = 0
    for name, members in grouped(cases, lambda c: c.name).items():
        if name in GLIBC_STOPS and glibc_version() >= GLIBC_STOPS[name]:
            continue
        if not any(r and stopped(r[c][0]) != "all" for r in results for c in members):
            print(f"the attack {name} works neither on {path} nor on the C library")
            status = 1
    return status


# ---- command line ------------------------------------------------------------------------------

def parse_arguments():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    add = parser.add_argument
    parser.add_argument("-h", "--help", action="help")
    add("--lib", type=score.pair, action="append", default=[])
    add("--only", action="store_true")
    add("--peers", type=pathlib.Path, default=PROJECT / "out" / "peers")
    add("--row", type=re.compile)
    add("--case", type=re.compile)
    add("--size", action="append")
    add("--repeat", type=int, default=5)
    add("--timeout", type=float, default=20.0)
    add("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    add("--at-least", type=int)
    add("--keep", type=pathlib.Path)
    add("--attacks")
    add("--matrix", action="store_true")
    add("--shares", action="store_true")
    add("--table", type=pathlib.Path)
    add("--check-table", type=pathlib.Path)
    return parser.parse_args()


def chosen(cases, options):
    return [c for c in cases if (not options.row or options.row.search(c.row)) and
            (not options.case or options.case.search(c.name)) and
            (not options.size or c.size in options.size)]


def run_all(cases, options, control):
    found, absent = libraries(options)
    results = {}
    for library in found:
        result, problem = keep_results(library, cases, options, control)
        if problem:
            print(f"{library.name}: {problem}")
            absent.append(library.name)
        else:
            results[library.name] = result
    if not results:
        return 2
    text = report(results, cases, absent, options)
    print(text, end="")
    if options.matrix:
        print("\n" + matrix(results, cases))
    if options.shares:
        print("\n" + shares(results, cases))
    if options.table:
        write_table(options.table, text)
    return gate(results, cases, options)


def main():
    options = parse_arguments()
    for tool in (os.environ.get("CC", "cc"), os.environ.get("CXX", "c++")):
        if shutil.which(tool) is None:
            print(f"no {tool}")
            return 77
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(prefix="twins-") as scratch:
        folder = pathlib.Path(scratch)
        cases, missing = read_set(folder, options.jobs,
                                  ("attacks.c",) if options.attacks else tuple(SOURCES))
        if missing:
            print(f"no compiler for {', '.join(missing)}")
        if options.check_table:
            return check_table(options.check_table, cases, missing)
        cases = chosen(cases, options)
        control = score.compile_all([], folder, options.jobs)["control"]
        if options.attacks:
            return check_attacks(options.attacks, cases, options, control)
        return run_all(cases, options, control)


if __name__ == "__main__":
    sys.exit(main())
