# SPDX-License-Identifier: MIT
"""CPython runs parts of its own test suite with every object on the library.

PYTHONMALLOC=malloc turns off Python's own small-object allocator, so each object of the suite is
a block of ours. The suite minds foreign file descriptors and variables, so it is watched through
/proc; a first small program of the same kinds (fork, threads, subprocess) gives the full proof.
A case that fails on the library is run again on the system's malloc, and counts as the machine's
fault only if it fails there too.
"""
import os
import re
import shutil
import subprocess
import sys
import threading

from harness import Failed, Skipped, expect, main, same

# Name of the group: arguments for the suite, and at least so many cases must have passed.
LIGHT = {
  "objects": (["-j2", "test_threading", "test_dict", "test_list", "test_json", "test_set",
               "test_gc", "test_bytes", "test_unicode", "test_pickle", "test_thread"], 1500),
  "fork": (["test_multiprocessing_fork"] + [x for c in (
    "WithProcessesTestPool", "WithProcessesTestQueue", "WithProcessesTestSharedCTypes",
    "WithProcessesTestConnection", "WithManagerTestContainers", "TestSyncManagerTypes")
    for x in ("-m", f"*.{c}.*")], 60),
  "subprocess": (["test_subprocess"] + [x for c in (
    "test_communicate*", "test_preexec*", "test_pass_fds*", "test_large*", "test_multiple*",
    "test_capture*", "test_call*", "test_run*", "test_std*", "test_swap*", "test_start*")
    for x in ("-m", c)], 60),
}
HEAVY = {
  "objects": (["-j2", "test_io", "test_threading", "test_queue", "test_fork1", "test_dict",
               "test_list", "test_json", "test_re", "test_pickle", "test_ast", "test_zlib",
               "test_bz2", "test_lzma", "test_decimal", "test_collections", "test_itertools",
               "test_weakref", "test_ctypes", "test_threading_local", "test_xml_etree"], 3500),
  "fork": (["test_multiprocessing_fork"], 300),
  "subprocess": (["test_subprocess"], 200),
}

SAMPLE = """
import json, multiprocessing, subprocess, sys, threading
def work(n):
  return sum(len(json.dumps({str(i): [i] * (i % 50)})) for i in range(n, n + 2000))
if __name__ == '__main__':
  multiprocessing.set_start_method('fork')
  with multiprocessing.Pool(2) as pool:
    forked = pool.map(work, range(0, 16000, 2000))
  threaded = [0] * 4
  def run(k):
    threaded[k] = work(k * 2000)
  threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
  [t.start() for t in threads]
  [t.join() for t in threads]
  child = subprocess.run([sys.executable, '-c', 'print("x" * 1000000)'], capture_output=True)
  print(forked[:4] == threaded, sum(forked), len(child.stdout), child.returncode)
"""


def interpreter(session):
  """The first Python 3 of the machine that has the test suite installed."""
  for name in ("/usr/bin/python3", sys.executable, shutil.which("python3")):
    probe = "import test.test_dict, test.test_subprocess, test.test_multiprocessing_fork, sys; " \
            "print(sys.executable)"
    if name and os.path.exists(name):
      found = subprocess.run([name, "-c", probe], capture_output=True, text=True, check=False,
                             cwd=session.work)
      if found.returncode == 0:
        return found.stdout.strip()
  raise Skipped("no Python with its test suite (test/programs/install.sh installs "
                "libpython3.X-testsuite)")


def failures(text):
  """The names of the cases that failed, and of the files: some hold no case that can be run."""
  files = re.findall(r"^\d+ tests? failed:\n((?:    .*\n)+)", text, re.M)
  return set(re.findall(r"^(?:FAIL|ERROR): (.*)$", text, re.M)).union(*map(str.split, files))


def suite(session, python, group, arguments, least):
  """Runs one group of the suite and counts the cases that passed."""
  folder = session.path(group)
  os.mkdir(folder)
  cmd = [python, "-m", "test", "-v", "--tempdir", folder] + arguments
  options = {"proof": "maps", "env": {"PYTHONMALLOC": "malloc"}, "status": None, "timeout": 900}
  ours = session.run(cmd, **options)
  text = ours.out.decode("utf-8", "replace")
  text += ours.err
  if ours.status != 0:
    failed = failures(text)
    theirs = session.run(cmd, preload=False, **options)
    known = failures(theirs.out.decode("utf-8", "replace") + theirs.err)
    if not failed or not failed <= known or theirs.status != ours.status:
      raise Failed(f"suite, {group}: exit status {ours.status}, {sorted(failed - known)} only on "
                   "the library\n" + "\n".join(text.splitlines()[-60:]))
    session.say(f"{group}: fail on the system's malloc too, not counted: {sorted(failed)}")
  passed = len(re.findall(r"\.\.\. ok$", text, re.M))
  expect(passed >= least, f"suite, {group}: only {passed} cases passed, expected {least}")
  session.say(f"{group}: {passed} cases of the suite passed in {ours.seconds:.1f} s")


def test(session):
  python = interpreter(session)
  script = session.path("sample.py")
  with open(script, "w", encoding="ascii") as f:
    f.write(SAMPLE)
  ours = session.both([python, script], env={"PYTHONMALLOC": "malloc"})
  same("forked, threaded and child results", ours.out.split()[0:1] + ours.out.split()[2:],
       [b"True", b"1000001", b"0"])
  problems = []

  def run(group, arguments, least):
    try:
      suite(session, python, group, arguments, least)
    except (Failed, Skipped) as problem:
      problems.append(problem)

  # Much of the suite waits on purpose, so the groups run side by side.
  threads = [threading.Thread(target=run, args=(group, *what))
             for group, what in (HEAVY if session.heavy else LIGHT).items()]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  if problems:
    raise problems[0]


main(test)
