#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mimalloc-trace records what a known program asks for, replays it, and refuses what is no trace.

  check_trace.py LIBRARY SUBJECT TOOLS BAD1 BAD2 LINKED OTHER WAY

SUBJECT is the program of subject.c, TOOLS the folder of recorder, packer and replayer, BAD1 and BAD2
the libraries of bad-malloc.c, OTHER that of other-malloc.c, and LINKED the program linked with it.
Exit status 0, 1.
"""

import json
import lzma
import os
import pathlib
import random
import subprocess
import sys
import tempfile

LIBRARY, SUBJECT, TOOLS, BAD1, BAD2, LINKED, OTHER, WAY = sys.argv[1:9]
TRACE = pathlib.Path(__file__).resolve().parent.parent.parent / "trace"
TOOL = [sys.executable, str(TRACE / "mimalloc-trace")]
ROUNDS, A_ROUND = 1000, 14
ENVIRONMENT = {**os.environ, "MIMALLOC_TRACE_TOOLS": TOOLS}


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def tool(*arguments, status=0):
    done = subprocess.run([*TOOL, *map(str, arguments)], capture_output=True, text=True,
                          env=ENVIRONMENT, timeout=200, check=False)
    expect(done.returncode == status, f"{arguments}: {done.returncode} {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def record(folder, what, *more, status=0):
    path = folder / f"{what}.trace"
    return path, tool("record", "-o", path, *more, "--", SUBJECT, what, status=status)


def record_under(preload, path, program, what):
    """The tool is a program, too: only what it records gets the library."""
    libraries = " ".join(filter(None, [f"{TOOLS}/libmimalloc-trace-record.so", preload]))
    return tool("record", "-o", path, "--", "env", f"LD_PRELOAD={libraries}", program, what)


def replay(path, *allocators, status=0):
    out = path.with_suffix(".json")
    said = tool("replay", path, "--rounds", 1, "--json", out,
                *[x for a in allocators for x in ("--allocator", a)], status=status)
    return json.loads(out.read_text())[0], said


def plain_of(path):
    return lzma.decompress(path.read_bytes())


def counts(folder):
    path, _ = record(folder, "calls")
    result, said = replay(path, "system", f"ours={LIBRARY}")
    extra = result["calls"] - ROUNDS * A_ROUND
    expect(0 <= extra <= 20, f"{result['calls']} calls")
    expect(result["blocks"] - ROUNDS * 7 <= 10 and not result["cut"], result["blocks"])
    expect(204000 < result["peak_bytes"] < 320000, result["peak_bytes"])
    for name in ("system", "ours"):
        told = result["allocators"][name]
        expect(told["calls"] == result["calls"] and told["peak"] > 0, told)
        expect(told["samples"][-1][0] == result["calls"], told["samples"][-1])
        expect(name in said, said)
    expect(path.stat().st_size < 2 * result["calls"], "more than two bytes a call")


def writes(folder):
    peaks = {}
    for what in ("large", "untouched"):
        path, _ = record(folder, what)
        peaks[what] = replay(path, "system")[0]["allocators"]["system"]["peak"]
    # The difference: both have the pages of programs and libraries that come in on the way.
    expect(700000 < peaks["large"] - peaks["untouched"] < 1300000, peaks)


def threads(folder):
    path, _ = record(folder, "threads")
    for _ in range(3):
        result, _ = replay(path, "system", LIBRARY)
        expect(result["threads"] == 17, result["threads"])
        expect(result["calls"] >= 8 * 1000, result["calls"])
        expect(all("failed" not in a for a in result["allocators"].values()), result)


def processes(folder):
    path, _ = record(folder, "fork")
    calls = replay(path, "system")[0]["calls"]
    expect(2 <= calls < 50, f"a child's calls count: {calls}")
    path, said = record(folder, "exec")
    expect("1 more program(s) ran in it" in said, said)
    record(folder, "exec", "--children")
    calls = replay(folder / "exec-2.trace", "system")[0]["calls"]
    expect(0 <= calls - ROUNDS * A_ROUND <= 20, calls)
    # Of a shell that becomes the program, the program is meant.
    path = folder / "shell.trace"
    tool("record", "-o", path, "--", "sh", "-c", f"exec {SUBJECT} calls")
    expect("calls" in tool("info", path) and SUBJECT in tool("info", path), "another program")


def deaths(folder):
    path, said = record(folder, "die", status=128 + 9)
    expect("ended by signal 9" in said, said)
    calls = replay(path, "system")[0]["calls"]
    expect(calls >= ROUNDS * A_ROUND, calls)
    path, _ = record(folder, "leak")
    peak = replay(path, "system")[0]["allocators"]["system"]["peak"]
    expect(peak > 2.5e6, peak)
    path, said = record(folder, "calls", "--limit", 100)
    expect("limit of calls" in said, said)
    expect(replay(path, "system")[0]["calls"] <= 100, "more calls than the limit")
    expect("stopped before the program" in tool("info", path), "a cut recording looks whole")


def refusals(folder):
    expect("No such file" in tool("record", "-o", "/nowhere/x.trace", "--", SUBJECT, status=2), "")
    expect("a folder" in tool("record", "-o", folder, "--", SUBJECT, status=2), "")
    expect("No such file" in tool("record", "-o", folder / "x.trace", "--", "/nowhere/program",
                                  status=2), "")
    expect(not (folder / "x.trace").exists(), "a trace of a program that is not there")
    path, _ = record(folder, "status", status=42)
    expect("no call in it" in tool("replay", path, "--allocator", "system", status=2), "")
    path, _ = record(folder, "calls")
    expect("no such library" in tool("replay", path, "--allocator", "/nowhere.so", status=2), "")
    expect("same name" in tool("replay", path, "--allocator", LIBRARY, "--allocator", LIBRARY,
                               status=2), "")
    tool("replay", path, status=2)
    expect("No such file" in tool("replay", folder / "none", "--allocator", "system", status=2), "")


def damage(folder):
    path, _ = record(folder, "threads")
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    expect("cut short" in tool("replay", path, "--allocator", "system", status=2), "")
    path.write_bytes(b"no trace at all, but some text")
    expect("not a trace" in tool("info", path, status=2), "")
    plain = lzma.decompress(whole)
    path.write_bytes(lzma.compress(plain[:-3], preset=0))
    expect("cut short" in tool("replay", path, "--allocator", "system", status=2), "")
    path.write_bytes(lzma.compress(plain[:20], preset=0))
    expect("not a trace" in tool("info", path, status=2), "")
    # The replayer itself, on files that were changed anywhere: a message or a replay, no fault.
    source, refused = random.Random(7), 0
    for _ in range(150):
        bad = bytearray(plain)
        for _ in range(source.randrange(1, 4)):
            bad[source.randrange(8, len(bad))] = source.randrange(256)
        path.write_bytes(bad)
        done = subprocess.run([f"{TOOLS}/mimalloc-trace-replay", path], capture_output=True,
                              text=True, timeout=60, check=False)
        expect(done.returncode in (0, 1, 3), f"{done.returncode} {done.stderr}")
        refused += done.returncode != 0
    expect(refused > 20, f"only {refused} of 150 damaged traces were refused")


def allocators(folder):
    path, _ = record(folder, "leak")
    _, said = replay(path, f"bad={BAD1}", "system", status=1)
    expect("gave no memory" in said, said)
    _, said = replay(path, f"bad={BAD2}", "system", status=1)
    expect("overwritten" in said, said)
    result, _ = replay(path, f"a={LIBRARY}", f"b={LIBRARY},MIMALLOC_SHOW_STATS=0")
    expect(set(result["allocators"]) == {"a", "b"}, result["allocators"].keys())
    # However they are told: several behind one option, more of it, the trace behind it.
    a, b, c = f"a={LIBRARY}", f"b={LIBRARY},MIMALLOC_SHOW_STATS=0", "c=system"
    out = folder / "told.json"
    for told in ([path, "--allocator", a, b, c], [path, "--allocator", a, b, "--allocator", c],
                 ["--allocator", a, "--allocator", b, c, path],
                 ["--allocator", a, b, c, "--rounds", 1, path]):
        out.unlink(missing_ok=True)
        tool("replay", "--rounds", 1, "--json", out, *told)
        names = list(json.loads(out.read_text())[0]["allocators"])
        expect(names == ["a", "b", "c"], f"{told}: {names}")
    expect("no trace" in tool("replay", "--allocator", a, b, status=2), "")
    expect("no allocator" in tool("replay", "--allocator", path, status=2), "")


def others(folder):
    """Programs that have a malloc already, linked or preloaded: recorded as any other."""
    for name, program, preload in (("linked", LINKED, None), ("preloaded", SUBJECT, OTHER),
                                   ("ours", SUBJECT, LIBRARY)):
        path = folder / f"{name}.trace"
        said = record_under(preload, path, program, "calls")
        extra = replay(path, "system")[0]["calls"] - ROUNDS * A_ROUND
        expect(0 <= extra <= 20, f"{name}: {extra} calls more than the program makes")
        expect("new and delete of C++ are those of" in said, f"{name}: {said}")
        record_under(preload, path, program, "threads")
        expect(replay(path, "system")[0]["threads"] == 17, name)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        globals()[WAY](pathlib.Path(scratch))
