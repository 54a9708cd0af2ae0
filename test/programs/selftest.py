# SPDX-License-Identifier: MIT
"""The harness itself: each way in which it may refuse a run does refuse, and a good run passes.

Besides MI_LIB takes MI_IDLE, a library that prints `mimalloc:` and serves nothing (standin.c).
A test of this folder is worth as much as the checks here; prove.py does the same with the whole
tests and takes minutes.
"""
import os
import pathlib
import subprocess
import sys
import unittest

import harness
from harness import Failed, Session, Skipped

PYTHON = os.path.realpath(sys.executable)
CHILD = "/bin/sh"


class Harness(unittest.TestCase):

  def session(self, library=None):
    folder = harness.fresh_folder("selftest", os.environ.get("MI_WORK"))
    self.addCleanup(subprocess.run, ["rm", "-rf", folder], check=True)
    session = Session("selftest", library or os.environ["MI_LIB"], folder, False)
    self.addCleanup(session.close)
    return session

  def refused(self, pattern, *arguments, library=None, **options):
    """The run must fail with a message of that kind."""
    with self.assertRaisesRegex(Failed, pattern):
      self.session(library).run(*arguments, **options)

  def test_good_run(self):
    session = self.session()
    done = session.run([PYTHON, "-c", "print('x' * 3)"])
    self.assertEqual(done.out, b"xxx\n")
    self.assertRegex(session.summary(), "1 under python")

  def test_children_are_counted(self):
    session = self.session()
    session.run([CHILD, "-c", "/bin/ls / | /bin/cat >/dev/null; /usr/bin/env >/dev/null"])
    self.assertEqual(sum(session.images.values()), 4)

  def test_maps(self):
    session = self.session()
    session.run([CHILD, "-c", "sleep 0.5; :"], proof="maps")
    self.assertEqual(sum(session.mapped.values()), 2)
    self.refused("never mapped", [CHILD, "-c", "sleep 0.3; :"], proof="maps",
                 env={"LD_PRELOAD": ""})

  def test_library_that_only_speaks(self):
    self.refused("bound .* to .*libc", [PYTHON, "-c", "0"], library=os.environ["MI_IDLE"])

  def test_library_that_is_no_allocator(self):
    with open("/proc/self/maps", encoding="utf-8") as f:
      libc = next(line.split()[-1] for line in f if "/libc.so" in line or "/libc-" in line)
    # Python from 3.13 on has a mimalloc of its own, which speaks as well.
    self.refused("no `mimalloc:` line", [CHILD, "-c", ":"], library=libc)

  def test_library_that_is_missing(self):
    self.refused("no `mimalloc:` line|never bound", [CHILD, "-c", ":"], library="/nowhere/lib.so")
    for value in ("/nowhere/lib.so", "relative.so", ""):
      script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lua.py")
      done = subprocess.run([sys.executable, script], env={**os.environ, "MI_LIB": value},
                            capture_output=True, text=True, check=False)
      self.assertEqual(done.returncode, 1, done.stdout)
      self.assertIn("FAILED: MI_LIB", done.stdout)

  def test_child_that_loses_the_library(self):
    self.refused("bound .* to .*libc", [CHILD, "-c", "unset LD_PRELOAD; /bin/ls /; :"])

  def test_crash_status_and_time(self):
    self.refused("died of SIGSEGV", [CHILD, "-c", "kill -SEGV $$"])
    self.refused("exit status 3", [CHILD, "-c", "exit 3"])
    self.refused("not done after", [CHILD, "-c", "sleep 30"], timeout=0.3)

  def test_report_of_the_library(self):
    text = "mimalloc: error: free: invalid pointer 0x1234"
    self.refused("invalid pointer", [CHILD, "-c", f"echo '{text}' >&2"])
    text = "mimalloc: assertion failed: at x.c:1"
    self.refused("assertion failed", [CHILD, "-c", f"echo '{text}' >&2"])
    self.session().run([CHILD, "-c", "echo 'mimalloc: error: unable to allocate memory' >&2"])

  def test_outputs_that_differ(self):
    with self.assertRaisesRegex(Failed, "output of sh"):
      self.session().both([CHILD, "-c", "echo $LD_PRELOAD"])
    with self.assertRaisesRegex(Failed, "file written by sh"):
      self.session().both([CHILD, "-c", 'echo "$LD_PRELOAD." >$0', harness.OUTPUT])
    self.session().both([CHILD, "-c", "echo same | tee $0", harness.OUTPUT])

  def test_server(self):
    session = self.session()
    server = session.daemon([CHILD, "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done"])
    harness.wait_for("sh is ready", lambda: b"ready" in pathlib.Path(server.log).read_bytes(), 20)
    session.stop(server)
    self.assertRegex(session.summary(), r"under sh")
    with self.assertRaisesRegex(Failed, "exit status 4"):
      session.stop(session.daemon([CHILD, "-c", "sleep 0.2; exit 4"]), number=None)

  def test_missing_program(self):
    with self.assertRaisesRegex(Skipped, "no-such-program"):
      self.session().need("sh", "no-such-program")


if __name__ == "__main__":
  unittest.main()
