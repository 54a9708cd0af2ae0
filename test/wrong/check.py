#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what a memory tool says of the program of deliberate errors.

  check.py memcheck PROGRAM    runs PROGRAM under valgrind's memcheck
  check.py asan PROGRAM        PROGRAM was compiled and linked with AddressSanitizer

Each error that `PROGRAM list` names is committed in a run of its own, and the tool has to report
it in the words listed there and in the function that commits it. `PROGRAM clean` must run without
a report: without that, a tool that complains of everything would pass. Exit status: 0 when every
expectation is met, 1 when not.
"""

import os
import re
import shutil
import subprocess
import sys

TIMEOUT = 120
MEMCHECK = ["valgrind", "--leak-check=full", "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite", "--error-exitcode=99"]
NO_ERRORS = {"memcheck": "ERROR SUMMARY: 0 errors", "asan": None}
ANY_REPORT = {"memcheck": r"ERROR SUMMARY: [1-9]", "asan": r"ERROR: (Address|Leak)Sanitizer"}


def run(tool, program, argument):
    """Returns the exit status and all output of one run under the tool."""
    command = (MEMCHECK if tool == "memcheck" else []) + [program, argument]
    env = dict(os.environ)
    if tool == "asan":
        # Blocks that the tool does not own are no leaks that it could know of.
        env["ASAN_OPTIONS"] = "detect_leaks=0:allow_user_poisoning=1"
        # clang looks for one of its own version only, which comes in a package of its own.
        symbolizer = shutil.which("llvm-symbolizer")
        if symbolizer is not None:
            env.setdefault("ASAN_SYMBOLIZER_PATH", symbolizer)
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=TIMEOUT, text=True, errors="replace")
    return done.returncode, done.stdout


def expectations(tool, program):
    """Pairs of an error and the report it has to draw."""
    listing = subprocess.run([program, "list"], check=True, timeout=TIMEOUT, text=True,
                             stdout=subprocess.PIPE, env={**os.environ, "ASAN_OPTIONS": ""})
    rows = [line.split("\t") for line in listing.stdout.splitlines() if line.count("\t") == 2]
    column = 1 if tool == "memcheck" else 2
    return [(row[0], row[column]) for row in rows if row[column] != "-"]


def show(text):
    sys.stdout.write("".join(f"    {line}\n" for line in text.splitlines()[-40:]))


def check_clean(tool, program):
    status, text = run(tool, program, "clean")
    good = (status == 0 and not re.search(ANY_REPORT[tool], text)
            and (NO_ERRORS[tool] is None or NO_ERRORS[tool] in text))
    print(f"{'ok  ' if good else 'FAIL'} clean: no report (status {status})")
    if not good:
        show(text)
    return good


def check_error(tool, program, name, pattern):
    _, text = run(tool, program, name)
    function = name.replace("-", "_")
    has_names = "external symbolizer" not in text  # which the tool says when it has none
    good = (re.search(pattern, text) and re.search(ANY_REPORT[tool], text)
            and (not has_names or re.search(rf"\b{function}\b", text)))
    print(f"{'ok  ' if good else 'FAIL'} {name}: {pattern}")
    if not good:
        show(text)
    return bool(good)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ANY_REPORT:
        print(__doc__, file=sys.stderr)
        return 2
    tool, program = sys.argv[1], os.path.abspath(sys.argv[2])
    expected = expectations(tool, program)
    if not expected:
        print(f"{program} lists no errors", file=sys.stderr)
        return 1
    results = [check_clean(tool, program)]
    results += [check_error(tool, program, name, pattern) for name, pattern in expected]
    print(f"{sum(results)} of {len(results)} as expected under {tool}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
