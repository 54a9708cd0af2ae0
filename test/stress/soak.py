# SPDX-License-Identifier: MIT
"""The stress programs in turn, for as long as told, other seeds each time.

    soak.py MINUTES BUILD [--seconds S] [--seed N] [--only REGEX]

BUILD is a build's folder; which programs there are, and what each needs in its environment, ctest
is asked. Each run gets a seed, a number of threads, and every second one the background thread,
all from the generator that --seed starts. A failure is printed with the command that repeats it;
what the program said last is beside it. A run that takes far too long is a failure; where there is
gdb, the stacks of all its threads are printed before it is ended. Ends with a line for each
program; the status is 1 when anything failed.

Only time in which this script ran counts, so it can be stopped and continued as a process group.
"""
import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Memory that grows is judged in runs of a minute and more, one shape at a time.
SHAPES = {"pipes": ("1:1", "N:1", "1:N")}
SHAPE_SECONDS = 65
TICK = 0.2
# Nothing that the tests cannot repeat, or that takes its seconds for something else.
NO_BACKGROUND = ("replay", "oom")


def programs(build, only):
  text = subprocess.run(["ctest", "--show-only=json-v1", "-L", "^stress$"], cwd=build, check=True,
                        stdout=subprocess.PIPE).stdout
  found = []
  for test in json.loads(text)["tests"]:
    if not re.search(only, test["name"]):
      continue
    if "command" not in test:
      sys.exit(f"{test['name']} is not built")
    properties = {p["name"]: p["value"] for p in test["properties"]}
    environment = dict(line.split("=", 1) for line in properties.get("ENVIRONMENT", []))
    found.append((test["name"], test["command"], environment, properties["WORKING_DIRECTORY"]))
  if not found:
    sys.exit(f"{build} has no stress programs")
  return found


class Clock:
  """Seconds in which this script ran."""

  def __init__(self):
    self.ran = 0.0
    self.last = time.monotonic()

  def read(self):
    now = time.monotonic()
    self.ran += min(now - self.last, 5 * TICK)
    self.last = now
    return self.ran


def stacks(pid):
  gdb = shutil.which("gdb")
  if gdb is None:
    return "(no gdb, no stacks)"
  try:
    return subprocess.run([gdb, "-p", str(pid), "-batch", "-ex", "thread apply all bt 20"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120).stdout.decode(errors="replace")
  except subprocess.TimeoutExpired:
    return "(gdb did not end)"


def run(clock, command, environment, folder, limit):
  """(what went wrong or None, whether it was skipped, the output's end)"""
  with tempfile.TemporaryFile() as log:
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, **environment},
                               stdout=log, stderr=subprocess.STDOUT)
    begin = clock.read()
    trouble = None
    while True:
      try:
        status = process.wait(TICK)
        break
      except subprocess.TimeoutExpired:
        if clock.read() - begin > limit:
          trouble = "took more than %d s\n%s" % (limit, stacks(process.pid))
          process.kill()
          status = process.wait()
          break
    clock.read()
    log.seek(0)
    text = log.read().decode(errors="replace")[-8000:]
  if trouble is None and status not in (0, 77):
    trouble = f"ended by {signal.Signals(-status).name}" if status < 0 else f"status {status}"
  return trouble, status == 77, text


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
  parser.add_argument("minutes", type=float)
  parser.add_argument("build")
  parser.add_argument("--seconds", type=float, default=10, help="of each run (10)")
  parser.add_argument("--seed", type=int, default=None, help="of the choices (by the clock)")
  parser.add_argument("--only", default="", help="programs whose test's name matches")
  args = parser.parse_args()
  seed = args.seed if args.seed is not None else time.time_ns() % 1000000
  choices = random.Random(seed)
  todo = programs(args.build, args.only)
  print(f"{len(todo)} programs of {args.build} for {args.minutes:g} minutes, choices of seed {seed}",
        flush=True)
  clock = Clock()
  runs, skipped, failures = {}, {}, []
  turn = 0
  while clock.read() < args.minutes * 60:
    name, command, environment, folder = todo[turn % len(todo)]
    lap = turn // len(todo)
    turn += 1
    stem = re.sub("-(dynamic|background)$", "", name.replace("stress-", "", 1))
    seconds = min(args.seconds, max(1.0, args.minutes * 60 - clock.read()))
    if stem in SHAPES and seconds == args.seconds:
      seconds = SHAPE_SECONDS
    words = ["%g" % seconds, str(choices.randrange(1, 1 << 31)), str(choices.choice((2, 3, 4, 8, 16)))]
    if stem in SHAPES:
      words.append(SHAPES[stem][lap % len(SHAPES[stem])])
    environment = dict(environment)
    if stem not in NO_BACKGROUND and choices.random() < 0.5:
      environment.update(MIMALLOC_BACKGROUND_PURGE="1",
                         MIMALLOC_PURGE_DELAY=str(choices.choice((1, 10, 1000))))
    trouble, skip, text = run(clock, command + words, environment, folder, 20 * seconds + 240)
    runs[name] = runs.get(name, 0) + 1
    if skip:
      skipped[name] = skipped.get(name, 0) + 1
    if trouble is not None:
      failures.append(name)
      print("== %s FAILED: %s\n%s\nrepeat: %s %s" % (
        name, trouble, text, " ".join(f"{k}='{v}'" for k, v in environment.items()),
        " ".join(command + words)), flush=True)
  for name in runs:
    print("%-32s %4d runs%s%s" % (
      name, runs[name], ", skipped" if name in skipped else "",
      ", %d FAILED" % failures.count(name) if name in failures else ""))
  print("%d runs in %.1f minutes, %d failures" % (turn, clock.read() / 60, len(failures)))
  return 1 if failures else 0


if __name__ == "__main__":
  sys.exit(main())
