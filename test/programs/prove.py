# SPDX-License-Identifier: MIT
"""Shows that each test of this folder can fail, and for the right reason.

Every test runs on the stand-in allocator (standin.c): without a defect it must pass; on a library
that says it serves and does not, and with blocks that overlap, it must fail. Other defects are
tried as well and reported; not every program meets each (lua never calls calloc).

Use: prove.py STANDIN IDLE [TEST...], the two libraries built from standin.c, and the names of
tests if not all. Prints a Markdown table; exit status 1 when a test passed that must not, or
failed on the flawless stand-in.
"""
import os
import subprocess
import sys
import time

TESTS = """cpython gxx git sqlite redis perl ruby lua node postgres nginx compress ghostscript
imagemagick ffmpeg""".split()
MUST_FAIL = ("missing", "idle", "overlap")


def run(name, library, defect):
  """One run of one test: its exit status, and the first line that says why it failed."""
  here = os.path.dirname(os.path.abspath(__file__))
  env = dict(os.environ, MI_LIB=library, MI_LIMIT="60", STANDIN_DEFECT=defect)
  begun = time.monotonic()
  done = subprocess.run([sys.executable, os.path.join(here, name + ".py")], env=env, text=True,
                        capture_output=True, check=False, errors="replace")
  why = [x for x in done.stdout.splitlines() if "FAILED" in x or "skipped" in x]
  kept = [x.split("kept ", 1)[1] for x in done.stdout.splitlines() if ": kept " in x]
  for folder in kept:
    subprocess.run(["rm", "-rf", folder], check=True)
  return done.returncode, (why or [""])[0], time.monotonic() - begun


def main():
  standin, idle = map(os.path.abspath, sys.argv[1:3])
  cases = [("none", standin), ("missing", standin + ".absent"), ("idle", idle),
           ("overlap", standin), ("short", standin), ("dirty", standin)]
  wrong = []
  print("| test | " + " | ".join(c for c, _ in cases) + " |")
  print("| --- |" + " --- |" * len(cases))
  for name in sys.argv[3:] or TESTS:
    cells = []
    for case, library in cases:
      status, why, seconds = run(name, library, case)
      cells.append({0: "passes", 77: "skipped"}.get(status, "fails") + f" ({seconds:.0f} s)")
      if (case == "none" and status == 1) or (case in MUST_FAIL and status == 0):
        wrong.append(f"{name} on {case}: exit status {status}: {why}")
      print(f"{name}, {case}: {why[:150]}", file=sys.stderr, flush=True)
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
  for line in wrong:
    print(line)
  return 1 if wrong else 0


sys.exit(main())
