#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Leaks in a C++ server, in an extension of Python and in a module of redis are found as the guide
says: each program runs once under the profiler, and one command names the line.

  check_leaks.py --library LIBRARY --work FOLDER

Left out is what is not installed; 77 without pprof and google-pprof.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from check_pprof import find_pprof

HERE = pathlib.Path(__file__).resolve().parent / "leaks"
SCRIPT = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
words = []
for i in range(30000):
    words.append(str(i) * 20)
    library.checksum(words[-1].encode())
"""


def build(options, name, *flags):
    source = next(HERE.glob(f"{name}.*"))
    compiler = os.environ.get("CXX", "c++") if source.suffix == ".cpp" else os.environ.get("CC", "cc")
    target = options.work / (name + (".so" if "-shared" in flags else ""))
    subprocess.run([compiler, "-g", "-O1", "-fno-inline", "-fno-builtin", *flags, source, "-o", target],
                   check=True)
    return target


def environment(options, file):
    return {**{k: v for k, v in os.environ.items() if not k.lower().startswith("mimalloc_")},
            "LD_PRELOAD": str(options.library.resolve()), "MIMALLOC_PROF": "1",
            "MIMALLOC_PROF_FILE": str(file)}


def server(options, file):
    program = build(options, "server")
    subprocess.run([program], check=True, env=environment(options, file))
    return program


def extension(options, file):
    library = build(options, "extension", "-shared", "-fPIC")
    python = os.path.realpath(sys.executable)
    subprocess.run([python, "-c", SCRIPT, library], check=True, env=environment(options, file))
    return python


def redis(options, file):
    program, bench, cli = (shutil.which("redis-" + n) for n in ("server", "benchmark", "cli"))
    if not (program and bench and cli):
        return None
    module, socket = build(options, "module", "-shared", "-fPIC"), str(options.work / "redis.sock")
    process = subprocess.Popen([program, "--port", "0", "--unixsocket", socket, "--save", "",
                                "--dir", options.work, "--loadmodule", module],
                               env=environment(options, file), stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            if os.path.exists(socket):
                break
            time.sleep(.05)
        load = [bench, "-s", socket, "-q", "-P", "16", "-r", "10000"]
        subprocess.run([*load, "-n", "50000", "-t", "set,lpush"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*load, "-n", "50000", "hits"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([cli, "-s", socket, "shutdown", "nosave"], stdout=subprocess.DEVNULL)
        process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()
    return program


def first_row(tool, program, file):
    """The row with the most bytes of its own."""
    kinds = ["-top", "-lines"] if os.path.basename(tool) == "pprof" else ["--text", "--lines"]
    text = subprocess.run([tool, *kinds, program, file], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    rows = [line for line in text.splitlines() if re.match(r"\s*[\d.]+\w*\s+[\d.]+%", line)]
    return rows[0] if rows else text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    options = parser.parse_args()
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    tools = [t for t in (find_pprof(options.work), shutil.which("google-pprof")) if t]
    if not tools:
        print("neither pprof nor google-pprof is installed")
        return 77
    failures = 0
    for name, run in (("server", server), ("extension", extension), ("module", redis)):
        source = next(HERE.glob(f"{name}.*"))
        line = next(i + 1 for i, text in enumerate(source.read_text().splitlines())
                    if text.endswith("// leak"))
        for tool in tools:
            # As the guide says, and the text that google-pprof reads.
            file = options.work / (name + (".pb.gz" if os.path.basename(tool) == "pprof" else ".gperf"))
            program = run(options, file)
            if program is None:
                print(f"{name}: redis is not installed")
                break
            row = first_row(tool, program, file)
            good = f"{source.name}:{line}" in row
            failures += not good
            print(f"{'' if good else 'FAIL: '}{name}, {os.path.basename(tool)}: {row}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
