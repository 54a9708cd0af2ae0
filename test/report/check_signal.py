#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A signal brings a report, and the program goes on.

  check_signal.py SITUATIONS

SITUATIONS is the program of situations.c. Exit status 0, 1.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = sys.argv[1]


WAIT = 30  # seconds in which a report must come; it takes a few ms


def start(what, **options):
    env = {**os.environ, **{"MIMALLOC_" + k.upper(): str(v) for k, v in options.items()}}
    said = tempfile.TemporaryFile()
    process = subprocess.Popen([PROGRAM, what], stdout=subprocess.PIPE, stderr=said, text=True,
                               env=env)
    process.said = said
    return process


def text_of(process):
    """Without a seek: the process writes where the file is at, which both have in common."""
    file = process.said.fileno()
    return os.pread(file, os.fstat(file).st_size, 0).decode()


def told(process, signals):
    """What the process says of signals, after its first line says that it is ready. With 0, of one
    that it has plans for."""
    process.stdout.readline()
    for number in range(max(signals, 1)):
        process.send_signal(signal.SIGUSR1)
        end = time.time() + (WAIT if signals else 1)
        while text_of(process).count("\n  the rest of the process") <= number and \
                time.time() < end:
            time.sleep(.05)
        time.sleep(.1)  # to the end of the report
    process.terminate()
    process.communicate(timeout=WAIT)
    return text_of(process), process.returncode


def expect(condition, text):
    if not condition:
        print(text)
        sys.exit(1)


# At slow allocations, as often as it is asked for.
text, code = told(start("ready_busy", report_signal=10), 2)
expect(text.count("memory report") == 2 and code == -signal.SIGTERM, f"busy: {code} {text}")
# By the background thread of a process that makes no call.
text, code = told(start("ready_idle", report_signal=10, background_purge=1), 2)
expect(text.count("memory report") == 2 and code == -signal.SIGTERM, f"idle: {code} {text}")
# One that the program wants itself, one that nobody can have, and that of a fault.
text, code = told(start("ready_own", report_signal=10, show_errors=1), 0)
expect("memory report" not in text, f"own: {text}")
for number in (9, 11):
    process = start("idle", report_signal=number, show_errors=1)
    process.communicate(timeout=WAIT)
    text = text_of(process)
    expect("report_signal" in text and process.returncode == 0, f"{number}: {process.returncode} {text}")
print("signals: good")
