#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The sample server shows what its requests have made it remember.

  check_server.py PROGRAM
"""

import re
import socket
import subprocess
import sys
import time
import urllib.request

import pprof

REQUESTS, EACH = 400, 100000


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(port, path):
    end = time.time() + 30
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
                return answer.read()
        except OSError:
            if time.time() > end:
                raise
            time.sleep(.05)


def functions(program):
    listing = subprocess.run(["nm", program], check=True, text=True, stdout=subprocess.PIPE).stdout
    return sorted((int(a, 16), name) for a, _, name in re.findall(r"^(\w+) (\w) (\S+)$", listing, re.M))


def main():
    program, port = sys.argv[1], free_port()
    server = subprocess.Popen([program, str(port)])
    try:
        before = sum(s.values[3] for s in pprof.read_pprof(get(port, "/debug/pprof/heap")).samples)
        for i in range(REQUESTS):
            get(port, f"/{i}")
        profile = pprof.read_pprof(get(port, "/debug/pprof/heap?seconds=0"))
    finally:
        server.kill()
        server.wait()
    main_mapping = profile.mappings[0]
    symbols = functions(program)

    def name(address):
        at = address - main_mapping.start + main_mapping.offset
        return next((n for a, n in reversed(symbols) if a <= at), "?")

    kept = sum(s.values[3] for s in profile.samples if "remember" in [name(a) for a in s.stack])
    truth = REQUESTS * EACH
    # Of 76 samples; 5 standard deviations.
    if before > EACH * 60 or abs(kept - truth) > 5 * truth / (truth / 524288) ** 0.5:
        print(f"FAIL: {before} bytes before, {kept} of {truth} bytes in remember()")
        return 1
    print(f"{kept} of {truth} bytes in remember()")
    return 0


if __name__ == "__main__":
    sys.exit(main())
