#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What repeatable programs cost, compared with what was committed: `python3 bench/baseline.py
--help`.

Short programs of the suite and recordings of real ones run with one thread, fixed seeds, a clock
that goes on by steps (bench/counted/clock.c) and addresses that are not random. Of each are
counted

  instructions  in the library alone, by valgrind's callgrind
  rmws          atomic read-modify-writes, by the counted library (bench/counted)
  calls         system calls of the process, by strace
  faults        page faults of the process
  peak          peak resident memory of the process without pages of files, KiB: how many of
                those are mapped along depends on what the system has of them in its cache

A figure that differs from the baseline's by more than 1 % and by more than SLACK fails, also where
it is less: run with --write and commit what it wrote along with the change. Figures depend on
compiler, C library, system and tools, which stand in the baseline: what was counted under others
is not compared, and said so. Exit status 1: something differs; 77: nothing could be compared."""

import argparse
import ctypes
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import instructions
import measure
import shared

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "trace"))
from mimalloc_trace import tools  # noqa: E402

BASELINE = ROOT / "test" / "baseline" / "baseline.json"
TRACES = ("R", "awk", "doxygen", "gcc", "ghostscript", "git", "lua", "openssl", "perl", "python",
          "redis", "sqlite")
PROGRAMS = {
    "alloc-test": ("alloc-test", 1, 200000),
    "batch": ("batch", 1, 25, 4000, 1024, 0),
    "batch-lifo": ("batch", 1, 50, 4000, 128, 1),
    "espresso": ("espresso", 1, 1, 9),
    "glibc-simple": ("glibc-loops", 0, 1, 4),
    "larson": ("larson", 1, 1),
    "lifetimes": ("lifetimes", 1, 24, 1),
    "malloc-large": ("malloc-large", 1, 5),
    "mstress": ("mstress", 1, 15000, 16, 1000),
    "random-large": ("random", 1, 40000, 16, 131072, 512),
    "random-small": ("random", 1, 200000, 16, 1024, 8192),
    "realloc-grow": ("realloc-grow", 1, 600),
    "remote": ("pairs", "remote", 20000),
    "rptest": ("rptest", 1, 20),
    "sh8bench": ("sh8bench", 1, 500),
    "thread-churn": ("thread-churn", 1, 60),
}
METRICS = ("instructions", "rmws", "calls", "faults", "peak")
SHARE = 0.01
# What means nothing: where the stack begins moves a page or two and the places of the first memory,
# of which one may hold a large OS page, so that the system is asked about those. 33 runs of each
# program on a busy machine had the same faults (trace-python at most 3 of 10,729 apart), and peaks
# at most 4 KiB apart; but on a new system with the same packages thread-churn has 7 page faults
# less, each time, presumably since at a fault in a file the kernel maps along what its cache has in
# one piece.
SLACK = {"instructions": 0, "rmws": 4, "calls": 4, "faults": 8, "peak": 8}
# How often a thread waits is the scheduler's.
WAITING = ("futex", "sched_yield", "restart_syscall")
TIMEOUT = 120
ADDR_NO_RANDOMIZE = 0x0040000


def fixed_addresses():
    """In the child: no random addresses, where the system lets us say so."""
    ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)


def one_processor():
    """In the child as well: the kernel adds up resident memory from counters of each processor only
    when they have reached 32 pages, so on several of them the peak would be off by as much each."""
    fixed_addresses()
    os.sched_setaffinity(0, {ctypes.CDLL(None).sched_getcpu()})


def environment(*preloaded, **more):
    """Nothing of the caller's, whose length moves the stack and with it where memory lies."""
    return {"PATH": "/usr/bin:/bin", **measure.FIXED_ENVIRONMENT, **more,
            "LD_PRELOAD": " ".join(map(str, preloaded))}


def run(command, folder, variables, prepare=fixed_addresses):
    done = subprocess.run(list(map(str, command)), env=variables, cwd=folder, timeout=TIMEOUT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False,
                          preexec_fn=prepare)
    if done.returncode != 0:
        words = " ".join(map(str, command))
        raise RuntimeError(f"{words}: {done.returncode}\n{done.stdout[-500:]}")
    return done.stdout


# Relative to the folder of a run, so that no length of a path matters: the loader copies names.
CLOCK, LIBRARY, COUNTED = "./clock.so", "./library.so", "./counted.so"


def count_instructions(options, command, folder):
    run([shutil.which("valgrind"), "-q", "--tool=callgrind", "--callgrind-out-file=profile",
         *command], folder, environment(CLOCK, LIBRARY))
    profile = (Path(folder) / "profile").read_text()
    return instructions.by_object(profile).get(options.library.name, 0)


def count_rmws(command, folder):
    run(command, folder, environment(CLOCK, COUNTED, MIMALLOC_COUNT_FILE="./count"))
    accounts = [shared.read_rows(path.read_text(encoding="utf-8"))
                for path in Path(folder).glob("count.*")]
    if not any(accounts):
        raise RuntimeError(f"{command[0]}: the counted library wrote no account")
    return sum(row[3]["rmws"] for rows in accounts for row in rows)


def count_calls(command, folder):
    run([shutil.which("strace"), "-f", "-qq", "-o", "calls", "-E",
         f"LD_PRELOAD={CLOCK} {LIBRARY}", *command], folder, environment())
    log = (Path(folder) / "calls").read_text(errors="replace")
    names = re.findall(r"^\d+ +(\w+)\(", log, re.MULTILINE)
    return sum(name not in WAITING for name in names)


def count_pages(options, command, folder):
    """Page faults as the kernel told the parent, peak memory as it told the program."""
    run([options.programs / "launch", "result", str(TIMEOUT), f"{CLOCK} {LIBRARY}", *command],
        folder, environment(COUNT_STATUS="./status"), one_processor)
    figures = json.loads((Path(folder) / "result").read_text())
    if figures["exit"] != 0:
        raise RuntimeError(f"{command[0]}: exit {figures['exit']}")
    peak, files = (int(re.search(rf"^{name}:\s*(\d+) kB$", (Path(folder) / "status").read_text(),
                                 re.MULTILINE)[1]) for name in ("VmHWM", "RssFile"))
    return figures["minor_faults"] + figures["major_faults"], peak - files


def middle(values):
    return sorted(values)[len(values) // 2]


def figures_of(options, name, command):
    """All metrics of a program that can be counted here."""
    figures = {}
    with tempfile.TemporaryDirectory(prefix="baseline-") as folder:
        for link, target in ((CLOCK, options.clock), (LIBRARY, options.library),
                             (COUNTED, options.counted), ("./program", command[0])):
            (Path(folder) / link).symlink_to(target)
        command = ["./program", *command[1:]]
        if shutil.which("valgrind"):
            figures["instructions"] = count_instructions(options, command, folder)
        figures["rmws"] = count_rmws(command, folder)
        if options.can_trace:
            figures["calls"] = count_calls(command, folder)
        runs = [count_pages(options, command, folder) for _ in range(3)]
        figures["faults"], figures["peak"] = (middle(values) for values in zip(*runs))
    return name, figures


def commands(options, folder):
    """Name: command. Recordings are unpacked into the folder."""
    found = {name: [options.programs / arguments[0], *map(str, arguments[1:])]
             for name, arguments in PROGRAMS.items()}
    for name in TRACES:
        plain = Path(folder) / name
        tools.unpack(str(ROOT / "bench" / "traces" / f"{name}.trace"), str(plain))
        found[f"trace-{name}"] = [options.replay, plain]
    return {name: command for name, command in sorted(found.items())
            if not options.only or name in options.only}


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "none"
    return (done.stdout.splitlines() or ["none"])[0].strip()


def setting(path):
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return "none"


def conditions(options):
    """What the figures depend on, by metric."""
    everywhere = {
        "machine": platform.machine(),
        "compiler": first_line(options.compiler, "--version").partition(" ")[2],
        "libc": " ".join(platform.libc_ver()), "page size": os.sysconf("SC_PAGE_SIZE"),
        "kernel": ".".join(platform.release().split(".")[:2]),
        "overcommit": setting("/proc/sys/vm/overcommit_memory"),
        "large pages": setting("/sys/kernel/mm/transparent_hugepage/enabled")}
    return {"instructions": {**everywhere, "valgrind": first_line("valgrind", "--version")},
            **{metric: everywhere for metric in METRICS[1:]}}


def strangers(told, here):
    """{metric: what differs, in words} of the metrics that cannot be compared."""
    found = {}
    for metric in METRICS:
        then, now = told.get(metric, {}), here[metric]
        parts = [f"{key} {now.get(key)} and not {then.get(key)}" for key in sorted({*then, *now})
                 if then.get(key) != now.get(key)]
        if parts:
            found[metric] = ", ".join(parts)
    return found


def differs(metric, then, now):
    return abs(now - then) > max(SHARE * then, SLACK[metric])


def compare(told, figures, left_out):
    """(lines about what differs, how many figures were compared)"""
    lines, compared = [], 0
    for name, now in figures.items():
        then = told.get(name)
        if then is None:
            lines.append(f"{name}: not in the baseline")
            continue
        for metric in METRICS:
            if metric in left_out or metric not in now or metric not in then:
                continue
            compared += 1
            if differs(metric, then[metric], now[metric]):
                lines.append(f"{name}: {metric} {then[metric]:,} -> {now[metric]:,}"
                             f" {100 * (now[metric] - then[metric]) / max(then[metric], 1):+.1f} %")
    return lines, compared


def can_trace():
    """Whether strace is there and may trace."""
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], capture_output=True,
                          check=False).returncode == 0


def gather(options):
    options.can_trace = can_trace()
    with tempfile.TemporaryDirectory(prefix="baseline-") as folder:
        jobs = commands(options, folder)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return dict(pool.map(lambda item: figures_of(options, *item), jobs.items()))


def write(path, figures, here):
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in figures.items())
    path.write_text(f'{{\n "conditions": {json.dumps(here, indent=2)},\n'
                    f' "programs": {{\n{rows}\n }}\n}}\n', encoding="utf-8")


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", metavar="PROGRAM", help="of these alone")
    parser.add_argument("--library", type=Path, default=ROOT / "out/release/libmimalloc.so")
    parser.add_argument("--programs", type=Path, default=ROOT / "out/release/test/baseline",
                        metavar="DIR", help="where programs, counted library and clock are built")
    parser.add_argument("--replay", type=Path, default=ROOT / "out/release/mimalloc-trace-replay")
    parser.add_argument("--compiler", default=os.environ.get("CC", "cc"))
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    parser.add_argument("--write", action="store_true", help="write the baseline anew")
    options = parser.parse_args()
    for name in ("library", "programs", "replay"):
        path = getattr(options, name).resolve()
        if not path.exists():
            sys.exit(f"bench: there is no {path}; build it first")
        setattr(options, name, path)
    options.counted = options.programs / "libmimalloc-counted.so"
    options.clock = options.programs / "libmimalloc-steps.so"
    return options


def main():
    options = parse()
    here = conditions(options)
    figures = gather(options)
    if options.write:
        missing = sorted({m for m in METRICS for row in figures.values() if m not in row})
        if missing or options.only:
            sys.exit(f"bench: a baseline has all programs and figures; missing: {missing}")
        write(options.baseline, figures, here)
        print(f"bench: wrote {options.baseline}")
        return 0
    told = json.loads(options.baseline.read_text(encoding="utf-8"))
    left_out = strangers(told["conditions"], here)
    for metric, why in left_out.items():
        print(f"not compared: {metric}: {why}")
    lines, compared = compare(told["programs"], figures, left_out)
    print("\n".join([*lines, f"{compared} figures of {len(figures)} programs compared, "
                     f"{len(lines)} differ"]))
    if lines:
        print("If that is meant, commit what `make baseline` writes along with the change.")
        return 1
    return 0 if compared else 77


if __name__ == "__main__":
    sys.exit(main())
