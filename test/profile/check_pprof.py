#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""pprof, google-pprof and jeprof read our files and name the lines of C, C++, Rust and Zig programs.

  check_pprof.py --library LIBRARY --work FOLDER [--build FOLDER]

pprof is looked for in PATH, $GOBIN and below $GOPATH or ~/go, as `go install
github.com/google/pprof@latest` leaves it; where there is only go, that is done here, into the folder
above. google-pprof is of Debian's google-perftools, jeprof of its libjemalloc-dev. zig may be in the
build's folder, where its own tests have it. What is not there is left out and named; 77 if none of the
three is there.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent / "languages"
MOST, REST, EACH = 3072, 1024, 16384
failures = 0


def expect(holds, what):
    global failures
    if not holds:
        failures += 1
        print(f"FAIL: {what}", flush=True)


def find_pprof(work):
    own = work.parent / "pprof"
    places = [os.environ.get("GOBIN", ""), os.environ.get("GOPATH", "") + "/bin",
              os.path.expanduser("~/go/bin"), str(own)]
    found = shutil.which("pprof") or shutil.which("pprof", path=os.pathsep.join(places))
    if found or not shutil.which("go"):
        return found
    done = subprocess.run(["go", "install", "github.com/google/pprof@latest"], cwd=work, text=True,
                          env={**os.environ, "GOBIN": str(own)}, stderr=subprocess.PIPE, timeout=900)
    if done.returncode != 0:
        print(f"pprof cannot be built here: {done.stderr[-500:]}")
    return shutil.which("pprof", path=str(own))


def output(*command, **options):
    done = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=300, **options)
    expect(done.returncode == 0, f"{command}: {done.returncode} {done.stderr[-2000:]}")
    return done.stdout


def build(language, work, options):
    """The program of a language, or None where there is no compiler."""
    source, program = HERE / f"keep.{language}", work / f"keep-{language}"
    pythons = sorted(options.build.glob("zig/zig-*/bin/python")) if options.build else []
    zig = [str(pythons[-1].absolute()), "-m", "ziglang"] if pythons else ["zig"]
    commands = {
        "c": [os.environ.get("CC", "cc"), "-g", "-O1", "-fno-inline", "-fno-builtin", source, "-o", program],
        "cpp": [os.environ.get("CXX", "c++"), "-g", "-O1", "-fno-inline", source, "-o", program],
        "rs": ["rustc", "-g", "-O", source, "-o", program],
        "zig": [*zig, "build-exe", "-lc", "-O", "ReleaseSafe", "--cache-dir", work / "cache",
                "--global-cache-dir", work / "cache", f"-femit-bin={program}", source]}
    if shutil.which(commands[language][0]) is None:
        return None
    output(*commands[language], cwd=work)
    return program


def line_of(language, word):
    lines = (HERE / f"keep.{language}").read_text().splitlines()
    return next(i + 1 for i, line in enumerate(lines) if line.endswith(f"// {word}"))


def profile(options, program, work, ending):
    path = work / (program.name + ending)
    environment = {k: v for k, v in os.environ.items() if not k.lower().startswith("mimalloc_")}
    environment.update(LD_PRELOAD=str(options.library.resolve()), MIMALLOC_PROF="1",
                       MIMALLOC_PROF_RATE="64KiB", MIMALLOC_PROF_FILE=str(path))
    output(program, env=environment)
    return path


def check_lines(text, language, tool):
    """Columns of both tools: flat, flat%, sum%, cum, cum%, name and place."""
    for word, count in (("most", MOST), ("rest", REST)):
        place = f"keep.{language}:{line_of(language, word)}"
        rows = [line.split() for line in text.splitlines() if re.search(re.escape(place) + r"\b", line)]
        expect(rows, f"{tool} names {place}:\n{text[:3000]}")
        share = max((float(row[4].rstrip("%")) for row in rows), default=0)
        truth = 100 * count / (MOST + REST)
        expect(abs(share - truth) < 10, f"{tool}: {place} has {share} %, not {truth}")


def check_language(language, options, work, tools):
    program = build(language, work, options)
    if program is None:
        return f"{language}: no compiler"
    pprof, perl, jeprof = tools
    if pprof:
        for ending in (".pb.gz", ".pb", ".gperf"):
            path = profile(options, program, work, ending)
            text = output(pprof, "-top", "-lines", "-cum", "-nodecount=0", "-nodefraction=0", program, path)
            check_lines(text, language, f"pprof {ending}")
        # Against itself nothing has grown; and a picture, if there is what draws them.
        path = work / (program.name + ".pb.gz")
        text = output(pprof, "-top", "-diff_base", path, program, path)
        expect(re.search(r"accounting for 0,? ", text) is not None, f"pprof -diff_base: {text}")
        if shutil.which("dot"):
            text = output(pprof, "-svg", "-lines", "-output", work / "a.svg", program, path)
            expect("</svg>" in (work / "a.svg").read_text(), "pprof -svg")
    for tool, ending in ((perl, ".gperf"), (jeprof, ".heap")):
        if tool:
            path = profile(options, program, work, ending)
            check_lines(output(tool, "--text", "--lines", "--cum", program, path), language, tool)
    return language


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    options = parser.parse_args()
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    tools = find_pprof(options.work), shutil.which("google-pprof"), shutil.which("jeprof")
    if not any(tools):
        print("neither pprof nor google-pprof nor jeprof is installed")
        return 77
    done = [check_language(language, options, options.work, tools)
            for language in ("c", "cpp", "rs", "zig")]
    named = [tool or f"no {name}" for tool, name in zip(tools, ("pprof", "google-pprof", "jeprof"))]
    print(f"{', '.join(named)}: {', '.join(done)}; "
          f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
