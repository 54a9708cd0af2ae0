# SPDX-License-Identifier: MIT
"""Test suites that the distribution ships as packages, run on the malloc under test.

What a suite answers is what became of each of its tests. A test that fails on the system's malloc as
well is no matter of ours, so that the answer of both sides is the same; but most must pass. Tests
that fail on one side alone are tried again, alone, since suites have tests that depend on time.
"""
import glob
import os
import re
import shlex
import subprocess

from harness import Failed, Skipped, expect

PYTHON = "/usr/bin/python3"


# -- CPython's

def _python(*modules, least):
  def suite(side):
    if subprocess.run([PYTHON, "-c", "import test.test_dict, test.test_asyncio"], check=False,
                      capture_output=True).returncode != 0:
      raise Skipped("Python's test suite is not installed")
    env = {"PYTHONMALLOC": "malloc"}

    def attempt(names):
      code, out = side.run([PYTHON, "-m", "test", "-v", "-j2", "--timeout", "600",
                            "-i", "*VSOCK*", *names],  # they hang on some virtual machines
                           status=None, timeout=1500, env=env)
      text = out.decode("utf-8", "replace")
      if code < 0 or "Fatal Python error" in text or re.search(r"Exit code -\d+", text):
        raise Failed("the suite did not end: " + text[-3000:])
      bad = re.findall(r"^(?:FAIL|ERROR): (.*)$", text, re.M)
      return len(re.findall(r"\.\.\. ok$", text, re.M)), bad

    passed, bad = attempt(modules)
    if bad:
      names = sorted({x.split("(")[1].split(".")[1] for x in bad if x.count("(") and "." in x})
      still = set(attempt(names or modules)[1])
      bad = [x for x in bad if x in still]
    expect(passed >= least, f"only {passed} tests passed")
    side.note(f"{passed} tests" + (f", {len(bad)} fail on both" if bad else ""))
    return "ran", sorted(bad)
  return suite


# -- programs that are tests, with a list of them in /usr/share/installed-tests

def _installed(package, least, skip=()):
  def suite(side):
    files = sorted(glob.glob(f"/usr/share/installed-tests/{package}/*.test"))
    if not files:
      raise Skipped(f"the tests of {package} are not installed")
    bus = side.need("dbus-run-session")
    outcomes, passed = {}, 0
    for path in files:
      name = os.path.basename(path)[:-5]
      if name in skip:
        continue
      with open(path, encoding="utf-8") as f:
        command = re.search(r"^Exec=(.*)$", f.read(), re.M).group(1)
      cmd = shlex.split(command)
      if "gdbus" in name:
        cmd = [bus, "--", *cmd]

      def attempt(cmd=cmd):
        try:
          code, out = side.run(cmd, status=None, timeout=120, watch=False,
                               env={"G_TEST_SRCDIR": os.path.dirname(cmd[-1])})
        except Failed as why:
          return f"{why}"[:60], 0
        return code, len(re.findall(rb"^ok ", out, re.M))

      outcomes[name], count = attempt()
      if outcomes[name] not in (0, 77):
        outcomes[name], count = attempt()
      passed += count
    bad = sorted(n for n, code in outcomes.items() if code not in (0, 77))
    expect(passed >= least, f"only {passed} tests passed; these programs failed: {bad}")
    side.note(f"{len(outcomes)} programs, {passed} tests" +
              (f", {len(bad)} programs fail on both" if bad else ""))
    if side.preload:
      side.session.mapped.update({package: len(outcomes)})
      # Ended before anybody looks at its mappings; whom its malloc was bound to is what counts.
      side.run([shlex.split(command)[0], "--help"], status=None, probe=["--help"], watch=False)
    return bad, "ran"
  return suite


# -- MariaDB's

MARIADB = """alias auto_increment bigint case cast create ctype_utf8 delete derived distinct fulltext
func_group func_json func_regexp_pcre func_str gis group_by having insert_select join key order_by
select sp subselect trigger type_blob type_newdecimal union update view win""".split()


def mariadb_suite(side):
  """Thirty tests of the main suite, whose server gets the library by an option of the suite."""
  folder = "/usr/share/mysql/mysql-test"
  if not os.path.exists(folder + "/mariadb-test-run.pl"):
    raise Skipped("mariadb-test is not installed")
  var = side.path("var")
  cmd = ["perl", "mariadb-test-run.pl", f"--vardir={var}", "--force", "--max-test-fail=0",
         "--parallel=2", "--retry=1", "--testcase-timeout=10", "--suite=main", "--skip-rpl",
         "--nowarnings"]
  if side.preload:
    cmd += [f"--mysqld-env={x}" for x in (f"LD_PRELOAD={side.session.library}",
                                          "MIMALLOC_SHOW_ERRORS=1", "MIMALLOC_VERBOSE=1")]
  if os.geteuid() == 0:
    cmd += ["--user=root"]
  begun_with = side.preload
  side.preload = False  # perl and the clients are not what is tested
  try:
    names = [n for n in MARIADB if os.path.exists(f"{folder}/main/{n}.test")]
    _, out = side.run(cmd + names, cwd=folder, status=None, timeout=1500,
                      env={"USER": "root"})
  finally:
    side.preload = begun_with
  text = out.decode("utf-8", "replace")
  results = dict(re.findall(r"^main\.(\S+)(?: '.*?')?\s.*\[ (pass|fail|skipped) \]", text, re.M))
  passed = sorted(n for n, what in results.items() if what == "pass")
  expect(len(passed) >= 20, f"only {len(passed)} tests passed\n{text[-2500:]}")
  if side.preload:
    for log in glob.glob(var + "/**/mysqld.1.err", recursive=True):
      with open(log, encoding="utf-8", errors="replace") as f:
        said = f.read()
      side.session.check_reports("mariadbd", said)
      side.session.check_verbose("mariadbd", said)
      side.session.mapped.update({"mariadbd": 1})
  side.note(f"{len(passed)} tests")
  return results


# -- numpy's

def numpy_suite(side):
  """The tests of arrays and of ufuncs that the package of PyPI brings along."""
  import more_runtimes
  more_runtimes.python(side)
  program = os.path.join(side.kept("python"), "bin", "python")
  code, out = side.run(
    [program, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "numpy.core.tests.test_multiarray",
     "numpy.core.tests.test_mem_overlap", "numpy.core.tests.test_ufunc", "-x", "--deselect",
     "dummy"], status=None, timeout=1500, env={"PYTHONMALLOC": "malloc"})
  text = out.decode("utf-8", "replace")
  match = re.search(r"(\d+) passed", text)
  expect(match and code in (0, 1), text[-3000:])
  side.note(f"{match.group(1)} tests")
  return match.group(1), sorted(re.findall(r"^FAILED (\S+)", text, re.M))


PROGRAMS = {
  "cpython-threads": _python("test_threading", "test_capi", "test_socket", "test_ssl", least=800),
  "cpython-asyncio": _python("test_asyncio", least=1500),
  "cpython-multiprocessing": _python("test_multiprocessing_fork", "test_multiprocessing_spawn",
                                     "test_multiprocessing_forkserver",
                                     "test_multiprocessing_main_handling", least=700),
  "glib-suite": _installed("glib", 500),
  "gdk-pixbuf-suite": _installed("gdk-pixbuf", 30),
  "mariadb-suite": mariadb_suite,
  "numpy-suite": numpy_suite,
}
