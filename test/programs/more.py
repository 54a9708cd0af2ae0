# SPDX-License-Identifier: MIT
"""More real programs: each runs on the system's malloc and then on the library, and must do the same.

The list of these programs, the measuring of a run, and the table of docs/programs.md.

  more.py NAME...     runs these, as ctest does: exit status 0 passed, 77 skipped, 1 failed
  more.py --table [NAME...]   runs all or these, one after the other, and prints the table
  more.py --list      prints the names

How it works
  A program is a function of more_*.py that gets a `Side` and runs whatever it runs through it. It is
  called twice, first with a side that has the system's malloc and then with one that has the library,
  each in a folder of its own, and what it returns must be the same both times: that is the output, or
  what is known to be the same in it. The library's reports of misuse fail the test, and so does a
  program that was not seen to map the library, or a probe that did not bind malloc to it.
  Processor time is that of all processes waited for; memory the peak of the largest one.

Environment: MI_LIB, MI_WORK and MI_LIMIT as for the other tests. What is downloaded or built once for
all runs (Python packages, Go's run-time) stays in MI_WORK/more.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import more_desktop
import more_preloads
import more_runtimes
import more_servers
import more_suites
from harness import SKIP, Failed, MapsWatch, Session, Skipped, describe, expect, fresh_folder, limit, tail

PROGRAMS = {**more_runtimes.PROGRAMS, **more_servers.PROGRAMS, **more_desktop.PROGRAMS,
            **more_preloads.PROGRAMS, **more_suites.PROGRAMS}


class Side:
  """Runs a program's commands on one of the two mallocs and adds up what they cost."""

  def __init__(self, session, preload):
    self.session, self.preload = session, preload
    self.folder = session.path("ours" if preload else "glibc")
    self.cpu, self.wall, self.peak, self.notes = 0.0, 0.0, 0, []
    os.mkdir(self.folder)

  # -- files

  def path(self, *parts):
    return os.path.join(self.folder, *parts)

  def write(self, name, text):
    """Writes a file into this side's folder, with the same name on both sides."""
    os.makedirs(os.path.dirname(self.path(name)) or ".", exist_ok=True)
    with open(self.path(name), "w", encoding="utf-8") as f:
      f.write(text)
    return self.path(name)

  def read(self, name):
    with open(self.path(name), "rb") as f:
      return f.read()

  def kept(self, name):
    """A folder that stays for all runs of this test and of others."""
    folder = os.path.join(os.environ.get("MI_WORK", tempfile.gettempdir()), "more", name)
    os.makedirs(folder, exist_ok=True)
    return folder

  def note(self, text):
    """A remark for the table's last column."""
    if text not in self.notes:
      self.notes.append(text)

  # -- programs

  def need(self, *programs):
    return self.session.need(*programs)

  def environment(self, env):
    return {"HOME": self.folder, "TMPDIR": self.folder, **(env or {})}

  def start(self, cmd, out, err, env=None, cwd=None, stdin=None, preload=None):
    """Starts a command on this side's malloc."""
    preload = self.preload if preload is None else preload
    return self.session.spawn(cmd, preload, None, out, err, self.environment(env),
                              cwd or self.folder, stdin)

  def finish(self, process, begun, timeout):
    """Waits for a started command and counts what it used."""
    end = time.monotonic() + limit(timeout)
    while True:
      pid, status, usage = os.wait4(process.pid, os.WNOHANG)
      if pid:
        break
      if time.monotonic() > end:
        raise Failed(f"{process.name}: not done after {limit(timeout)} s")
      time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(status)
    self.cpu += usage.ru_utime + usage.ru_stime
    self.wall += time.monotonic() - begun
    self.peak = max(self.peak, usage.ru_maxrss)
    return process.returncode

  def run(self, cmd, env=None, cwd=None, feed=None, timeout=600, status=0, probe=None, watch=True):
    """Runs a command to its end. Its output; with a status of None the status and the output."""
    if self.preload and probe is not None:
      self.session.run([cmd[0], *probe], status=None, env=self.environment(env))
    stem = self.path(".out")
    if feed is not None:
      with open(stem + ".in", "wb") as f:
        f.write(feed if isinstance(feed, bytes) else feed.encode())
    watcher, begun = None, time.monotonic()
    with open(stem, "w+b") as out, open(stem + ".err", "w+b") as err, \
         open(stem + ".in" if feed is not None else os.devnull, "rb") as stdin:
      process = self.start(cmd, out, err, env, cwd, stdin)
      if self.preload and watch:
        watcher = MapsWatch(self.session, process.pid)
        watcher.start()
      try:
        code = self.finish(process, begun, timeout)
      finally:
        self.session.end_group(process)
        if watcher:
          watcher.stop()
      out.seek(0), err.seek(0)
      text, errors = out.read(), err.read().decode("utf-8", "replace")
    if self.preload:
      self.session.check_reports(process.name, errors)
    if watcher and status is None:
      watcher.check(process)
    if status is None:
      return code, text + errors.encode()
    if code != status:
      raise Failed(f"{' '.join(map(str, cmd))[:200]}: {describe(code)} on "
                   f"{'the library' if self.preload else 'the system malloc'}\n{tail(text)}\n"
                   f"{tail(errors)}")
    if watcher:
      watcher.check(process)
    return text

  def tool(self, cmd, env=None, cwd=None, feed=None, timeout=600, status=0):
    """A command that only helps: on the system's malloc, not counted. Its output."""
    return self.session.run(cmd, preload=False, env=self.environment(env), cwd=cwd or self.folder,
                            feed=feed.encode() if isinstance(feed, str) else feed,
                            timeout=timeout, status=status).out

  def server(self, cmd, env=None, cwd=None):
    """Starts a server, which `stop` ends and counts."""
    log = open(self.path("server.log"), "wb")
    process = self.start(cmd, log, log, env, cwd)
    process.log, process.begun = log.name, time.monotonic()
    self.session.daemons.append(process)
    process.preload = self.preload
    return process

  def stop(self, process, number, status=0, timeout=60):
    """Asks a server to end, waits for it and counts what it used."""
    if self.preload:
      expect(self.session.maps_library(process.pid), f"{process.name} does not map the library")
      self.session.mapped.update({process.name: 1})
    if number:
      process.send_signal(number)
    code = self.finish(process, process.begun, timeout)
    with open(process.log, encoding="utf-8", errors="replace") as f:
      text = f.read()
    if self.preload:
      self.session.check_reports(process.name, text)
    expect(code == status, f"{process.name}: {describe(code)}\n{tail(text)}")


class Row:
  """What became of one program."""

  def __init__(self, name):
    self.name, self.code, self.why, self.sides = name, 1, "", []

  def cells(self):
    """The row of the table."""
    word = {0: "same", SKIP: "not installed"}.get(self.code, "FAILED")
    if self.code == 0:
      theirs, ours = self.sides
      what = (f"{theirs.cpu:.1f}", f"{ours.cpu:.1f}", f"{theirs.peak / 1024:.0f}",
              f"{ours.peak / 1024:.0f}", "; ".join(ours.notes))
    else:
      what = ("", "", "", "", self.why.splitlines()[0] if self.why else "")
    return f"| {self.name} | {word} | " + " | ".join(what) + " |"


def open_session(name):
  library = os.environ.get("MI_LIB", "")
  expect(os.path.isabs(library) and os.path.isfile(library),
         "MI_LIB must be the absolute path of the library to test")
  work = fresh_folder(name, os.environ.get("MI_WORK"))
  os.chmod(work, 0o755)
  return Session(name, library, work, False)


def run(name):
  """Runs one program on both mallocs and compares."""
  row, session = Row(name), open_session(name)
  try:
    answers = []
    for preload in (False, True):
      side = Side(session, preload)
      row.sides.append(side)
      answers.append(PROGRAMS[name](side))
    if answers[0] != answers[1]:
      raise Failed(f"another answer than on the system's malloc:\n{str(answers[0])[:1500]}\n"
                   f"--- on the library:\n{str(answers[1])[:1500]}")
    expect(answers[0], "no answer")
    expect(session.summary(), "nothing was seen to run on the library")
    row.code = 0
  except Skipped as why:
    row.code, row.why = SKIP, str(why)
  except Failed as why:
    row.why = str(why)
  except subprocess.SubprocessError as why:
    row.why = str(why)
  except Exception:  # A defect of the test itself is a failure, never a pass.
    row.why = traceback.format_exc()
  finally:
    session.close()
    if row.code == 1:
      row.why += f"\nkept {session.work}"
    else:
      shutil.rmtree(session.work, ignore_errors=True)
  return row


def main():
  arguments = sys.argv[1:]
  if "--list" in arguments:
    print("\n".join(PROGRAMS))
    return 0
  names = [x for x in arguments if not x.startswith("--")] or list(PROGRAMS)
  table = "--table" in arguments
  # A shell's background jobs ignore it, and so would tests that send it to themselves.
  signal.signal(signal.SIGINT, signal.default_int_handler)
  if table:
    print("| program | outcome | s glibc | s ours | MiB glibc | MiB ours | |\n"
          "| --- | --- | ---: | ---: | ---: | ---: | --- |", flush=True)
  codes = []
  for name in names:
    row = run(name)
    codes.append(row.code)
    if table:
      print(row.cells(), flush=True)
      if row.code == 1:
        print(f"{name}: {row.why}", file=sys.stderr, flush=True)
    else:
      print(f"{name}: {({0: 'passed', SKIP: 'skipped'}).get(row.code, 'FAILED')}: {row.why}\n"
            f"{row.cells()}", flush=True)
  if 1 in codes:
    return 1
  return SKIP if not table and set(codes) == {SKIP} else 0


if __name__ == "__main__":
  sys.exit(main())
