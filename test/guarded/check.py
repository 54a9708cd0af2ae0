#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what guarded blocks make of real faults: check.py PROGRAM LIBRARY.

Each crime runs once guarded and once not. Guarded, the report must say what was done, by how many
bytes, to a block of which size, with the stacks of its allocation and (after free) of its free, and
the program must die of the fault as it would have. Not guarded, nothing may be said of guards.
"""

import os
import re
import resource
import signal
import subprocess
import sys

ALLOCATED = r"allocated by:\n(?:    #.*\n)*?    #.*make_block"
FREED = r"freed by:\n(?:    #.*\n)*?    #.*give_up_block"
CRIMES = {
    "overrun-read": [r"buffer overflow: access 0 bytes past the end of block 0x\w+ of 100 bytes",
                     ALLOCATED],
    "overrun-write": [r"buffer overflow: access 6 bytes past the end of block 0x\w+ of 100 bytes",
                      ALLOCATED],
    "underrun-write": [r"buffer underflow: access 5000 bytes before block 0x\w+ of 100 bytes",
                       ALLOCATED],
    "read-after-free": [r"use after free: access at byte 10 of the freed block 0x\w+ of 100 bytes",
                        ALLOCATED, FREED],
    "write-after-free": [r"use after free: access at byte 99 of the freed block 0x\w+ of 100 bytes",
                         ALLOCATED, FREED],
}
FAULTED = (-signal.SIGSEGV, -signal.SIGBUS)


def run(program, library, crime, guarded, **more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MIMALLOC_")}
    environment["LD_PRELOAD"] = library
    if guarded:
        environment.update(MIMALLOC_GUARDED_SAMPLE_RATE="1", MIMALLOC_GUARDED_PRECISE="1")
    environment.update(more)
    return subprocess.run([program, crime], env=environment, capture_output=True, text=True,
                          timeout=60, check=False)


def main():
    program, library = sys.argv[1:3]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    wrong = []

    def expect(condition, crime, what, done):
        if not condition:
            wrong.append(crime)
            print(f"{crime}: {what}; it ended with {done.returncode} and said:\n{done.stderr}")

    for crime, patterns in CRIMES.items():
        done = run(program, library, crime, True)
        expect(done.returncode in FAULTED, crime, "it must die of the fault", done)
        for pattern in patterns:
            expect(re.search(pattern, done.stderr), crime, f"no match for {pattern!r}", done)
        expect("after-free" in crime or "freed by" not in done.stderr, crime,
               "nobody freed it", done)
    done = run(program, library, "small-underrun", True, MIMALLOC_SHOW_ERRORS="1")
    expect("write 3 bytes before it" in done.stderr, "small-underrun", "free must report it", done)
    done = run(program, library, "overrun-write", True, MIMALLOC_SHOW_ERRORS="1", MIMALLOC_GUARDED_PRECISE="0")
    expect("of size 100: write after 106 bytes" in done.stderr, "small-overrun", "free must report it", done)
    done = run(program, library, "none", True)
    expect(done.returncode == 0 and done.stderr == "" and done.stdout == "lived on\n", "none",
           "the innocent must live", done)
    done = run(program, library, "overrun-read", False)
    expect("access" not in done.stderr and done.returncode == 0, "not guarded", "nothing is guarded",
           done)
    print(f"{len(CRIMES) + 4} runs, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
