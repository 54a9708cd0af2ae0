#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What would hurt on a machine with many processors, counted: `python3 bench/shared.py --help`.

Programs of the suite run on the counted library (bench/counted: the same sources, in which each
atomic and each plain access is a call), twice, with different amounts of work: the difference is
the steady state, free of the start. For each program the read-modify-writes (RMWs) for 1,000 calls
that allocate and 1,000 that free, and how often a line of 64 bytes moves to another thread, in
records of the library and in blocks; then the variables that belong to no page and no thread and
are written more than --bound times in 1,000 calls.

With --check programs in a steady state must have none of the latter, and a free by another thread
one RMW and at most one line moved in records, whatever the other does in between. Exit status 1: a
program failed, or a check."""

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import build
import measure
import suite

ROOT = build.ROOT
KINDS = ("calls", "rmws", "stores", "block_moves", "record_moves", "taken")
# Files whose functions serve many variables: the variable is told by their callers.
GENERIC = ("base/counters.h", "base/counters.c", "base/bits.h", "mem/bitmap.h", "mem/bitmap.c",
           "base/lock.h", "os/lock.c")
TRIES = 3
MOST = 3  # variables of a program that the table names
# What belongs to one page, or to one thread (a ring of slices, or a transfer cache, to several
# where there are many).
OWN = re.compile(r"^(page|next|first|p|theap|words|entry|t|links|ring)(->|\.)|^own in |^lock_of\(t\)")
FREES = re.compile(r"free|_Zd|delete")
ALLOCATES = re.compile(r"alloc|memalign|strn?dup|_Zn|new|realpath")
TIMEOUT = 300


@dataclass
class Account:
    """Sums by (variable, "allocate" or "free" or "other"), and calls by the same."""

    calls: Counter = field(default_factory=Counter)
    variables: defaultdict = field(default_factory=lambda: defaultdict(Counter))

    def less(self, other):
        """This minus a shorter run; what the shorter had more of is not steady: none."""
        left = Account()
        left.calls = self.calls - other.calls
        for key, sums in self.variables.items():
            left.variables[key] = sums - other.variables.get(key, Counter())
        return left

    def per_thousand(self, operation, kind):
        calls = self.calls[operation]
        total = sum(sums[kind] for (_, op), sums in self.variables.items() if op == operation)
        return 1000 * total / calls if calls else 0.0

    def process_wide(self, bound):
        """[(writes for 1,000 calls, variable)] of those above the bound, the most first."""
        calls = self.calls["allocate"] + self.calls["free"]
        writes = Counter()
        for (variable, _), sums in self.variables.items():
            if not OWN.match(variable):
                writes[variable] += sums["rmws"] + sums["stores"]
        return [(1000 * n / calls, variable) for variable, n in writes.most_common()
                if calls and 1000 * n > bound * calls]


def read_rows(text):
    """The lines that count.c wrote: (pc, caller, outer, sums, name)."""
    rows = []
    for line in text.splitlines():
        if line.startswith("end "):
            if line != "end 0":
                sys.exit("bench: more places than the counted library has room for")
            return rows
        parts = line.split(" ", 9)
        pc, caller, outer = (int(part, 16) for part in parts[:3])
        rows.append((pc, caller, outer, dict(zip(KINDS, map(int, parts[3:9]))), parts[9]))
    sys.exit("bench: an account has no end")


def frames_of(library, addresses):
    """{address: [(function, file below src, line), ...]}, the innermost of inlined ones first."""
    addresses = sorted(addresses)
    # A return address is that of the next instruction.
    text = subprocess.run(["addr2line", "-a", "-f", "-i", "-e", str(library)],
                          input="".join(f"{a - 1:x}\n" for a in addresses), capture_output=True,
                          text=True, check=True).stdout
    frames, lines, current = {}, text.splitlines(), None
    i = 0
    while i < len(lines):
        if lines[i].startswith("0x"):
            current = frames.setdefault(int(lines[i], 16) + 1, [])
            i += 1
            continue
        place, _, number = lines[i + 1].split(" ")[0].rpartition(":")
        current.append((lines[i], place.rpartition("/src/")[2],
                        int(number) if number.isdigit() else 0))
        i += 2
    return frames


@lru_cache(maxsize=None)
def source(file):
    path = ROOT / "src" / file
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def argument(file, line, function):
    """The first argument of a call, as the source has it: which counter, bitmap or lock."""
    lines = source(file)
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    match = re.search(re.escape(function) + r"\(&?((?:[^,()]|\([^()]*\))+)", text)
    return match.group(1).strip() if match else ""


def variable_of(name, frames):
    """The variable's name: as the verb has it, or as it is handed to a function for many."""
    name = name.lstrip("&(").strip() or "plain"
    inner = frames[0][0] if frames else ""
    for function, file, line in frames:
        if file not in GENERIC:
            handed = argument(file, line, inner)
            where = f"{function} ({file}:{line})"
            if frames[0][1] in GENERIC:
                return handed or f"{name} in {where}"
            return where if name == "plain" else name
        inner = function
    return name


def operation_of(function):
    if ALLOCATES.search(function):
        return "allocate"
    return "free" if FREES.search(function) else "other"


def account_of(rows, library):
    frames = frames_of(library, {a for row in rows for a in row[:3] if a})
    account = Account()
    for pc, caller, outer, sums, name in rows:
        entry = frames.get(outer)
        operation = operation_of(entry[-1][0]) if entry else "other"
        account.calls[operation] += sums["calls"]
        if any(sums[kind] for kind in KINDS[1:]):
            chain = frames.get(pc, []) + (frames.get(caller, []) if caller else [])
            account.variables[variable_of(name, chain), operation].update(
                {kind: sums[kind] for kind in KINDS[1:]})
    return account


def run_once(library, job, directory, preload=()):
    """The rows of all processes of a run, or None when it failed."""
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        environment = {**measure.clean_environment(), **job.environment,
                       "LD_PRELOAD": " ".join(map(str, (*preload, library))),
                       "MIMALLOC_COUNT_FILE": str(Path(scratch) / "count")}
        with open(job.stdin, "rb") if job.stdin else open("/dev/null", "rb") as given:
            done = subprocess.run(list(map(str, job.command)), env=environment, stdin=given,
                                  cwd=directory, capture_output=True, timeout=TIMEOUT, check=False)
        if done.returncode != 0:
            return None
        return [row for path in sorted(Path(scratch).glob("count.*"))
                for row in read_rows(path.read_text(encoding="utf-8"))]


def steady(library, program, options):
    """What the second half of the work added."""
    accounts = []
    least = options.scale
    if hasattr(program, "work"):
        least = max(least, 1 / program.arguments[program.work])
    for scale in (least, 2 * least):
        job = program.job(options.build, options.out, scale)
        if getattr(job, "driver", None):
            return None
        rows = run_once(library, job, options.out)
        if not rows:
            return None
        accounts.append(account_of(rows, library))
    return accounts[1].less(accounts[0])


# One thread allocates, another frees: in batches of 1,000, and a block at a time.
HANDED = [suite.own("remote", "pairs", "remote", 100000, work=1),
          suite.own("hand", "pairs", "hand", 20000, work=1)]

# What may write to words of all threads but now and then.
STEADY = [suite.own("espresso", "espresso", 1, 2, 12),
          suite.own("random-small", "random", 1, 400000, 16, 1024, 8192),
          suite.own("random-steady", "random", 1, 1500000, 16, 80, 300000),
          suite.own("alloc-test", "alloc-test", 1, 600000),
          suite.own("latency", "latency", 1, 300000),
          suite.own("rptest", "rptest", 2, 300)]

HEAD = ("| program | calls | RMWs, malloc | free | records moved, malloc | free "
        "| blocks moved, malloc | free | process-wide, written more often |")


def row_of(name, account, bound):
    cells = [name, f"{sum(account.calls[o] for o in ('allocate', 'free')):,}"]
    for kind in ("rmws", "record_moves", "block_moves"):
        cells += [f"{account.per_thousand(o, kind):.1f}" for o in ("allocate", "free")]
    often = account.process_wide(bound)
    more = [f"{len(often) - MOST} more"] if len(often) > MOST else []
    cells.append(", ".join([f"`{v}` {n:.1f}" for n, v in often[:MOST]] + more) or "none")
    return "| " + " | ".join(cells) + " |"


def details(account, count):
    """The variables with the most read-modify-writes and moves."""
    total = Counter()
    for (variable, operation), sums in account.variables.items():
        for kind in KINDS[1:]:
            total[variable, operation, kind] += sums[kind]
    lines = []
    for kind in KINDS[1:]:
        top = [(n, v, o) for (v, o, k), n in total.most_common() if k == kind and n][:count]
        for n, variable, operation in top:
            calls = account.calls[operation]
            rate = f"{1000 * n / calls:.2f}" if calls else "-"
            lines.append(f"  {kind:13} {n:>10} {rate:>9} of 1,000 calls  {operation:9} {variable}")
    return lines


def problems_of(program, account, bound):
    """What a program does that it should not."""
    if program not in HANDED:
        return [f"{variable} is written {n:.1f} times in 1,000 calls"
                for n, variable in account.process_wide(bound)]
    rmws, moves = (account.per_thousand("free", kind) for kind in ("rmws", "record_moves"))
    found = [] if rmws == 1000 else [f"{rmws:.1f} RMWs for 1,000 frees by another thread"]
    # Now and then the owner takes what others freed.
    return found + ([] if moves <= 1050 else [f"{moves:.1f} lines moved for 1,000 such frees"])


def check(options):
    wrong = 0
    for program in HANDED + STEADY:
        options.scale = 1.0
        # On a busy machine more calls find that something is due: that is not so three times.
        for _ in range(TRIES):
            account = steady(options.counted, program, options)
            found = problems_of(program, account, options.bound) if account else ["it failed"]
            if not found:
                break
        wrong += bool(found)
        print(f"{program.name}: {'; '.join(found) or 'as it should be'}", flush=True)
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM",
                        help="names or patterns as for run.py (default: work and stress)")
    build.add_arguments(parser)
    parser.add_argument("--counted", type=Path, metavar="LIB",
                        default=ROOT / "out/release/test/baseline/libmimalloc-counted.so")
    parser.add_argument("--scale", type=float, default=0.1, help="of the shorter run")
    parser.add_argument("--bound", type=float, default=1.0)
    parser.add_argument("--details", type=int, default=0, metavar="N",
                        help="the N variables with the most of each kind")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if not options.counted.is_file():
        sys.exit(f"bench: there is no {options.counted}; "
                 "build the target mimalloc-counted")
    options.counted, options.out = options.counted.resolve(), options.out.resolve()
    options.build = options.build.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.check:
        return check(options)
    build.programs(options.build)
    ours = [p for p in HANDED if not options.programs or p.name in options.programs]
    theirs = [name for name in options.programs if name not in [p.name for p in HANDED]]
    chosen = ours + (suite.matching(theirs) if theirs else
                     [] if ours and options.programs else suite.WORK + suite.STRESS)
    print(HEAD + "\n| --- " + "| ---: " * 7 + "| --- |", flush=True)
    failed = 0
    for program in chosen:
        account = steady(options.counted, program, options)
        failed += account is None
        print(row_of(program.name, account, options.bound) if account else
              f"| {program.name} | not counted |", flush=True)
        if account and options.details:
            print("\n".join(details(account, options.details)), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
