#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs in environments that a machine, a sandbox or a user may set, on the library and on glibc.

  environment.py --build DIR --library FILE [--heavy] [--only REGEX] [--table FILE] [--jobs N]

DIR is the folder `test` of a build; rows.py lists what is run. Each row is one environment and one
program, run on the system's malloc and then on the library. Expected is what glibc does in the same
place: where it serves the program, the library does; where it answers that there is no memory (or no
thread), the library may do the same. A crash, a hang or a wrong result is never right, except where
glibc ends the process in the same way. Rows in which the library does worse on purpose name the
reason (WORSE in rows.py), and docs/environments.md explains it.

Prints a table in Markdown, and for each failure both runs. Exit status 0, 1 (a failure), 77 (nothing
could be run). An environment that cannot be made here is skipped, with the reason in the table.
"""
import argparse
import concurrent.futures
import copy
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import debugger
import rows

IMPOSSIBLE, HANGS = 75, "hangs"
WORDS = {0: "passes", 3: "no memory", 4: "wrong errno", 5: "no thread", 76: "refused",
         HANGS: "hangs"}
ORDERLY = {3, 5, 76}  # it said that there is none


class Outcome:
  """What one run left: its status, what it printed, and its numbers by key."""

  def __init__(self, status, out="", err=""):
    self.status, self.out, self.err = status, out, err
    pairs = (line.partition("=") for line in out.splitlines())
    self.numbers = {key: int(value) for key, _, value in pairs if value.isdigit()}

  @property
  def word(self):
    if self.status in WORDS:
      return WORDS[self.status]
    number = -self.status if isinstance(self.status, int) and self.status < 0 else self.status - 128
    try:
      return signal.Signals(number).name
    except ValueError:
      return f"status {self.status}"

  @property
  def is_impossible(self):
    return self.status == IMPOSSIBLE

  @property
  def reason(self):
    return (self.err.strip().splitlines() or ["no reason given"])[-1]


class Runner:
  """Runs rows with the programs of one build, copied to where any user may read them."""

  def __init__(self, options, work):
    self.work, self.library = work, os.path.join(work, os.path.basename(options.library))
    shutil.copy(options.library, self.library)
    build = pathlib.Path(options.build)
    for path in [*build.glob("environment/mimalloc-environment-*"), *build.glob("mimalloc-api-*"),
                 *build.glob("mimalloc-stress-*-dynamic")]:
      if path.is_file():
        name = re.sub("^mimalloc-(environment-)?", "", path.name)
        shutil.copy(path, os.path.join(work, name))
    for name in ("load.c", "load.h"):
      shutil.copy(pathlib.Path(__file__).with_name(name), work)
    os.chmod(work, 0o755)
    for name in os.listdir(work):
      os.chmod(os.path.join(work, name), 0o755)

  def program(self, name):
    """The path of a program of the build or of the system; None if there is none."""
    own = os.path.join(self.work, name)
    return own if os.path.exists(own) else shutil.which(name)

  def makes(self, row):
    """Whether the library's run makes the call that the row refuses: then it dies of it here."""
    deadly = copy.copy(row)
    deadly.enter = row.enter.rpartition(":")[0] + ":KILL"
    # SIGABRT: the child that load forks died of it.
    return self.run(deadly, True).word in ("SIGSYS", "SIGABRT")

  def run(self, row, ours):
    """One row on the library or on the system's malloc."""
    stands = {"LIBRARY": self.library, "GLIBC": "libc.so.6",
              "SOURCE": os.path.join(self.work, "load.c"),
              "MODULE": os.path.join(self.work, "module.so")}
    command = [stands.get(part, part) for part in (row.ours if ours and row.ours else row.command)]
    path = self.program(command[0])
    if path is None:
      return Outcome(IMPOSSIBLE, err=f"{command[0]} is not there")
    command[0] = path
    if row.raised:
      command[0] = raised = os.path.join(self.work, f"raised-{os.path.basename(path)}")
      if not os.path.exists(raised):
        shutil.copy(path, raised)
        os.chmod(raised, 0o4755)
    if row.debug:
      return Outcome(*debugger.run(row.debug, command, self.library if ours else None))
    return self.start(row, command, ours)

  def environment(self, row, ours):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("LD_", "MIMALLOC_", "MALLOC_", "GLIBC_TUNABLES", "ENTER", "PRELOAD"))}
    env.update(LC_ALL="C", HOME=self.work)
    preload = [self.library] if ours and not row.is_linked else []
    if row.enter:
      env["ENTER"] = row.enter
      if row.is_foreign:
        preload.insert(0, os.path.join(self.work, "enter.so"))
    if preload:
      env["PRELOAD"] = ":".join(preload)
    env.update({"MIMALLOC_" + k.upper(): str(v) for k, v in row.options.items()})
    return env

  def start(self, row, command, ours):
    launch = [os.path.join(self.work, "launch"), *row.ways, "--"]
    process = subprocess.Popen(launch + command, env=self.environment(row, ours), cwd=self.work,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True)
    try:
      out, err = process.communicate(timeout=row.seconds)
      status = process.returncode
    except subprocess.TimeoutExpired:
      status = HANGS
    finally:
      try:
        os.killpg(process.pid, signal.SIGKILL)
      except ProcessLookupError:
        pass
    if status == HANGS:
      out, err = process.communicate()
    return Outcome(status, out.decode(errors="replace"), err.decode(errors="replace"))


# ---- judgement ---------------------------------------------------------------------------------

def complaint(row, glibc, ours):
  """Why the library's run is not as good as glibc's; None if it is."""
  if ours.status != glibc.status:
    if glibc.status == 0:
      return f"{ours.word} where glibc serves"
    if ours.status != 0 and ours.status not in ORDERLY:
      return f"{ours.word} where glibc says `{glibc.word}`"
  if ours.status != 0:
    return None
  if row.is_foreign and not row.is_api and glibc.status == 0 and ours.out != glibc.out:
    return "prints something else"
  for key, check in row.measures.items():
    text = check(key, glibc.numbers, ours.numbers)
    if text:
      return text
  if row.is_silent and ours.err:
    return f"prints {ours.err.splitlines()[0]!r}"
  return None


class Judged:
  """A row, its two runs, and what came of them: passed, worse, failed or skipped."""

  def __init__(self, row, glibc, ours, unmade=None):
    self.row, self.glibc, self.ours, self.note = row, glibc, ours, ""
    if glibc.is_impossible or ours.is_impossible:
      self.verdict, self.note = "skipped", (glibc if glibc.is_impossible else ours).reason
      return
    problem = complaint(row, glibc, ours) or unmade
    known = rows.WORSE.get((row.place, row.program))
    self.verdict = "failed" if problem and not known else "worse" if problem else "passed"
    self.note = (known or problem) if problem else row.note

  def show(self):
    print(f"\n{self.row.place} | {self.row.program}: {self.note}\n  {self.row.describe()}")
    for name, run in (("glibc", self.glibc), ("ours", self.ours)):
      print(f"  {name}: {run.word}")
      for line in (run.out + run.err).strip().splitlines()[-12:]:
        print(f"    {line[:200]}")


def judge(runner, row):
  """Measures may be disturbed by what else the machine does, and how much threads hold at once is
  chance: both get another try."""
  for tries in range(3):
    glibc = Outcome(0) if row.is_api else runner.run(row, False)
    ours = glibc if glibc.is_impossible else runner.run(row, True)
    unmade = None
    if row.is_made and ours.status == 0 and not runner.makes(row):
      unmade = "the library does not make this call: the row shows nothing"
    judged = Judged(row, glibc, ours, unmade)
    by_chance = ours.status in ORDERLY or (row.measures and tries == 0)
    if judged.verdict != "failed" or not by_chance:
      break
  return judged


# ---- the table ---------------------------------------------------------------------------------

def cell(runs):
  """`passes` or what did not, with the programs' names."""
  words = {}
  for program, run in runs:
    words.setdefault(run.word, []).append(program)
  if list(words) == ["passes"]:
    return "passes"
  return "; ".join(f"{word}: {', '.join(names)}" if len(words) > 1 else word
                   for word, names in words.items())


def table(judged):
  """One line for each environment."""
  lines = ["| environment | programs | glibc | ours | |", "| --- | --- | --- | --- | --- |"]
  places = {}
  for j in judged:
    places.setdefault(j.row.place, []).append(j)
  for place, here in places.items():
    done = [j for j in here if j.verdict != "skipped"]
    notes = list(dict.fromkeys(
      f"{'' if j.verdict == 'passed' else j.verdict + ': '}{j.note}" for j in here if j.note))
    glibc = cell([(j.row.program, j.glibc) for j in done if not j.row.is_api]) if done else ""
    ours = cell([(j.row.program, j.ours) for j in done]) if done else ""
    lines.append(f"| {place} | {', '.join(j.row.program for j in here)} | {glibc} | {ours} "
                 f"| {'; '.join(notes)} |")
  return "\n".join(lines)


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--build", required=True)
  parser.add_argument("--library", required=True)
  parser.add_argument("--heavy", action="store_true", help="all programs in all environments")
  parser.add_argument("--only", default="", help="environments and programs that match")
  parser.add_argument("--table", help="write the table to this file as well")
  parser.add_argument("--jobs", type=int, default=2)
  options = parser.parse_args()
  rows.check_calls()
  chosen = [row for row in rows.every(options.heavy, "secure" in os.path.basename(options.library))
            if re.search(options.only, f"{row.place} | {row.program}")]
  work = tempfile.mkdtemp(prefix="mi-environment-")
  try:
    runner = Runner(options, work)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
      judged = list(pool.map(lambda row: judge(runner, row), chosen))
  finally:
    shutil.rmtree(work, ignore_errors=True)
  text = table(judged)
  print(text)
  if options.table:
    pathlib.Path(options.table).write_text(text + "\n", encoding="utf-8")
  counts = {v: sum(j.verdict == v for j in judged) for v in ("passed", "worse", "skipped", "failed")}
  for j in judged:
    if j.verdict == "failed":
      j.show()
  print("\n" + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
  if counts["failed"]:
    return 1
  return 0 if counts["passed"] else 77


if __name__ == "__main__":
  sys.exit(main())
