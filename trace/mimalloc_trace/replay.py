# SPDX-License-Identifier: MIT
"""Replays traces with allocators in turn, and makes tables of what they took."""

import json
import os
import pathlib
import subprocess
import tempfile
from dataclasses import dataclass
from statistics import median

from . import Refusal, tools

TIMEOUT = 600
# What decides how an allocator works is what the command line says, not what is set around it.
DROP = ("LD_PRELOAD", "MALLOC_", "MIMALLOC_", "TCMALLOC_", "GLIBC_TUNABLES")


@dataclass(frozen=True)
class Allocator:
    name: str
    library: str  # empty: the system's malloc
    environment: tuple


def parse(text):
    """[NAME=]LIB[,VARIABLE=VALUE...], where LIB may be `system`."""
    first, *variables = text.split(",")
    name, _, library = first.rpartition("=")
    if library != "system" and not os.path.isfile(library):
        raise Refusal(f"{library}: there is no such library")
    if any("=" not in variable for variable in variables):
        raise Refusal(f"{text}: options are NAME=VALUE")
    name = name or ",".join([pathlib.Path(library).name.split(".so")[0], *variables])
    return Allocator(name, "" if library == "system" else os.path.realpath(library),
                     tuple(tuple(variable.split("=", 1)) for variable in variables))


def run_once(plain, allocator):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(DROP)}
    environment.update(allocator.environment)
    if allocator.library:
        environment["LD_PRELOAD"] = allocator.library
    try:
        done = subprocess.run([tools.tool(tools.REPLAYER), plain], env=environment, text=True,
                              capture_output=True, check=False, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return {"failed": f"no end after {TIMEOUT} s"}
    if "cannot be preloaded" in done.stderr:
        return {"failed": "the library cannot be preloaded"}
    if done.returncode == 1:
        raise Refusal(done.stderr.strip().removeprefix("mimalloc-trace: "))
    if done.returncode != 0:
        why = f"ended by signal {-done.returncode}" if done.returncode < 0 else "failed"
        return {"failed": done.stderr.strip()[-200:] or why}
    return json.loads(done.stdout)


def replay(path, allocators, rounds):
    """By allocator: the runs, or why it failed. They take turns, each round begun by another."""
    runs = {allocator.name: [] for allocator in allocators}
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "trace")
        told = tools.unpack(path, plain)
        for number in range(rounds):
            turn = number % len(allocators)
            for allocator in allocators[turn:] + allocators[:turn]:
                runs[allocator.name].append(run_once(plain, allocator))
    return {"trace": str(path), **told, "allocators": {name: summary(r) for name, r in runs.items()}}


def summary(runs):
    failed = [run["failed"] for run in runs if "failed" in run]
    if failed:
        return {"failed": failed[0]}
    walls = [run["wall"] for run in runs]
    middle = sorted(runs, key=lambda run: run["mean"])[len(runs) // 2]
    live = sum(sample[1] for sample in middle["samples"])
    return {"wall": median(walls), "spread": (max(walls) - min(walls)) / median(walls),
            "cpu": median(run["user"] + run["sys"] for run in runs),
            "peak": median(run["peak"] for run in runs),
            "mean": median(run["mean"] for run in runs),
            "faults": median(run["faults"] for run in runs),
            "calls": middle["calls"], "threads": middle["threads"],
            "over_live": sum(s[2] for s in middle["samples"]) / live if live else None,
            "samples": middle["samples"]}


def mib(value):
    return f"{value / (1 << 20):.2f}"


def table(result):
    """Lines; the ratio in brackets is to the first allocator."""
    rows = [["", "wall ms", "spread", "cpu ms", "peak MiB", "mean MiB", "mean/live", "faults"]]
    base = next((a for a in result["allocators"].values() if "failed" not in a), None)
    for name, told in result["allocators"].items():
        if "failed" in told:
            rows.append([name, told["failed"]])
            continue
        rows.append([name, beside(told, base, "wall", 1e3), f"{told['spread'] * 100:.0f}%",
                     beside(told, base, "cpu", 1e3), beside(told, base, "peak", 1 / (1 << 20)),
                     beside(told, base, "mean", 1 / (1 << 20)),
                     f"{told['over_live']:.2f}" if told["over_live"] else "-",
                     f"{told['faults']:.0f}"])
    full = [row for row in rows if len(row) > 2]
    widths = [max(len(row[i]) for row in full) for i in range(len(rows[0]))]
    widths[0] = max(len(row[0]) for row in rows)
    yield (f"{result['trace']}: {result['program']}, {result['calls']} calls, "
           f"{result['threads']} thread(s), at most {mib(result['peak_bytes'])} MiB asked for")
    for row in rows:
        yield "  ".join([row[0].ljust(widths[0]),
                         *(c.rjust(w) if len(row) > 2 else c for c, w in zip(row[1:], widths[1:]))])


def beside(told, base, key, factor):
    ratio = f" ({told[key] / base[key]:.2f})" if base[key] else ""
    return f"{told[key] * factor:.2f}{ratio}"
