# SPDX-License-Identifier: MIT
"""What every test of this folder shares: running a real program on the library, and the proof.

Owns
  the environment that preloads the library, the work folder, time limits, the exit codes
  (0 passed, 77 skipped with the reason printed, 1 failed), and three proofs that the library
  served a program:
    bindings  the dynamic linker writes down where it bound each symbol (LD_DEBUG=bindings), one
              file for every process image, children and daemons included. The main process must
              have bound `malloc` to the library, and no process that was given the library may
              have bound malloc, calloc, realloc or free to any other shared object. The strongest.
    maps      /proc/PID/maps of the process and its descendants, looked at while they run, for
              programs that mind a foreign file descriptor or variable.
    verbose   the library's own `mimalloc:` lines on standard error.

How it works
  A script calls `main(function)`; the function gets a `Session` and raises nothing when all is
  well. Each run keeps its standard error, in which the library reports what it thinks wrong
  (MIMALLOC_SHOW_ERRORS): a report of an invalid or double free fails the test even if the
  program's output is right.

Environment: MI_LIB, the absolute path of the library; MI_WORK, a folder to work in (a fresh one
under the system's temporary folder without it); MI_LIMIT, the most seconds that one run may take;
the argument --heavy asks for the large variant.

Invariants: every process that a test starts is gone when it ends; the work folder is kept only
after a failure; the program itself is the unchanged one of the system.
"""
import collections
import hashlib
import itertools
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

SKIP = 77
OUTPUT = "{output}"
BINDING = re.compile(rb"binding file (.+) \[\d+\] to (.+) \[\d+\]: "
                     rb"normal symbol `(malloc|calloc|realloc|free)'")
# An error about a request that no machine can serve is the documented answer, not a defect.
REPORT = re.compile(r"mimalloc: (?:error|assertion)(?!.*(?:unable to allocate|out of memory)).*")


class Failed(Exception):
  """The program or the library did something wrong."""


class Skipped(Exception):
  """The machine lacks something that the test needs."""


class Result:
  """What one finished run left: exit status, the two streams and the seconds it took."""

  def __init__(self, status, out, err, seconds):
    self.status, self.out, self.err, self.seconds = status, out, err, seconds


def describe(status):
  """An exit status in words: a signal by its name."""
  if status < 0:
    return f"died of {signal.Signals(-status).name}"
  return f"exit status {status}"


def tail(text, lines=25):
  """The end of a long text and, before it, lines about errors, for a message."""
  if isinstance(text, bytes):
    text = text.decode("utf-8", "replace")
  every = text.splitlines()
  errors = [line for line in every[:-lines] if re.search(r"error|fail|abort", line, re.I)]
  return "\n".join(errors[:lines] + every[-lines:])


def expect(condition, message):
  """Fails the test with `message` unless the condition holds."""
  if not condition:
    raise Failed(message)


def same(what, got, want):
  """Fails the test unless the two values are equal."""
  if got != want:
    raise Failed(f"{what}: got {str(got)[:400]!r}, expected {str(want)[:400]!r}")


def checksum(path):
  """The SHA-256 of a file."""
  digest = hashlib.sha256()
  with open(path, "rb") as f:
    for part in iter(lambda: f.read(1 << 20), b""):
      digest.update(part)
  return digest.hexdigest()


def children(pid):
  """The process ids of all living descendants of `pid`."""
  found = []
  try:
    for task in os.listdir(f"/proc/{pid}/task"):
      with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
        for child in map(int, f.read().split()):
          found.append(child)
          found += children(child)
  except OSError:
    pass  # It ended while we looked.
  return found


def limit(seconds):
  """A time limit, shortened when the environment says so."""
  return min(seconds, float(os.environ.get("MI_LIMIT", seconds)))


def wait_for(what, condition, seconds=60):
  """Polls until `condition()` is true and returns its value; fails when the time is up."""
  seconds = limit(seconds)
  end = time.monotonic() + seconds
  while True:
    value = condition()
    if value:
      return value
    expect(time.monotonic() < end, f"{what}: still not so after {seconds} s")
    time.sleep(0.05)


class MapsWatch(threading.Thread):
  """Looks at a process and its descendants while they run and notes which of them map the library."""

  def __init__(self, session, pid):
    super().__init__(daemon=True)
    self.session, self.pid = session, pid
    self.seen, self.ended = set(), threading.Event()

  def run(self):
    while not self.ended.wait(0.02):
      for pid in [self.pid] + children(self.pid):
        if pid not in self.seen and self.session.maps_library(pid):
          self.seen.add(pid)

  def stop(self):
    self.ended.set()
    self.join()

  def check(self, process):
    """Fails unless the main process was seen to map the library."""
    expect(process.pid in self.seen, f"{process.name} never mapped {self.session.library}")
    self.session.mapped.update({process.name: len(self.seen)})


class Session:
  """One test: the library, the folder it works in, and the processes it started."""

  def __init__(self, name, library, work, heavy, user=None):
    self.name, self.library, self.work, self.heavy, self.user = name, library, work, heavy, user
    self.traces = os.path.join(work, "bindings")
    self.daemons, self.count = [], itertools.count(1)
    self.images, self.mapped = collections.Counter(), collections.Counter()
    os.mkdir(self.traces)

  # -- what the machine has

  def need(self, *programs):
    """The paths of the programs, or a skipped test that names those missing."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin"
    paths = [shutil.which(p, path=path) for p in programs]
    missing = [p for p, found in zip(programs, paths) if not found]
    if missing:
      raise Skipped(f"{', '.join(missing)} not found (test/programs/install.sh installs it)")
    return paths if len(paths) > 1 else paths[0]

  def load(self, interpreter, script, amount, **options):
    """Runs a script of the folder load on the library and on the system's malloc: what its lines
    say, by their first words. The last one is `end ok`."""
    file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "load", script)
    ours = self.both([*interpreter, file, str(amount)], **options)
    lines = dict(x.split(" ", 1) for x in ours.out.decode().splitlines())
    same("end", lines["end"], "ok")
    return lines

  def path(self, *parts):
    """A path in the work folder."""
    return os.path.join(self.work, *parts)

  # -- running

  def environment(self, preload, trace, extra):
    """The caller's environment without any allocator's settings, plus ours; `trace` names the
    file, short of the process id, in which the linker shall note its bindings."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("LD_", "MIMALLOC_", "MALLOC_", "GLIBC_TUNABLES", "MI_"))}
    env.update(LC_ALL="C.UTF-8", TZ="UTC", HOME=self.work, TMPDIR=self.work)
    if preload:
      env.update(LD_PRELOAD=self.library, MIMALLOC_SHOW_ERRORS="1")
      if trace:
        env.update(LD_DEBUG="bindings", LD_DEBUG_OUTPUT=trace, MIMALLOC_VERBOSE="1")
    env.update(extra or {})
    return env

  def spawn(self, cmd, preload, proof, out, err, env=None, cwd=None, stdin=None):
    """Starts a process in a group of its own."""
    who = {"user": self.user.pw_uid, "group": self.user.pw_gid,
           "extra_groups": []} if self.user else {}
    trace = None
    if preload and proof == "bindings":
      trace = os.path.join(self.traces, f"run{next(self.count)}")
    process = subprocess.Popen(cmd, stdin=stdin or subprocess.DEVNULL, stdout=out, stderr=err,
                               env=self.environment(preload, trace, env), start_new_session=True,
                               cwd=cwd or self.work, **who)
    process.name, process.trace = os.path.basename(cmd[0]), trace
    return process

  def run(self, cmd, preload=True, proof="bindings", env=None, cwd=None, feed=None,
          timeout=300, status=0):
    """Runs a program to its end and checks its status, the library's reports and the proof."""
    stem = self.path(f"output-{next(self.count)}")
    if feed is not None:
      with open(stem + ".in", "wb") as f:
        f.write(feed)
    begun, watch = time.monotonic(), None
    with open(stem, "w+b") as out, open(stem + ".err", "w+b") as err, \
         open(stem + ".in" if feed is not None else os.devnull, "rb") as stdin:
      process = self.spawn(cmd, preload, proof, out, err, env, cwd, stdin)
      if preload and proof == "maps":
        watch = MapsWatch(self, process.pid)
        watch.start()
      try:
        code = process.wait(limit(timeout))
      except subprocess.TimeoutExpired as late:
        raise Failed(f"{cmd[0]}: not done after {limit(timeout)} s") from late
      finally:
        self.end_group(process)
        if watch:
          watch.stop()
      out.seek(0), err.seek(0)
      result = Result(code, out.read(), err.read().decode("utf-8", "replace"),
                      time.monotonic() - begun)
    if preload:
      self.check_reports(process.name, result.err)
    if status is not None and code != status:
      raise Failed(f"{' '.join(map(str, cmd))[:200]}: {describe(code)} "
                   f"{'on the library' if preload else 'on the system malloc'}\n"
                   f"{tail(result.out)}\n{tail(result.err)}")
    if preload:
      if watch:
        watch.check(process)
      else:
        self.check_verbose(process.name, result.err)
        self.check_bindings(process)
    return result

  def both(self, cmd, **options):
    """Runs a program on the library and, at the same time, on the system's malloc; the two
    outputs must be the same, byte for byte, and so must the two files when the command names
    one as OUTPUT. Returns the library's run, its file's path as `file`."""
    files = [self.path(f"output-{next(self.count)}") for _ in range(2)]
    cmds = [[path if part == OUTPUT else part for part in cmd] for path in files]
    reference = {}

    def plain():
      try:
        reference["run"] = self.run(cmds[1], preload=False, **options)
      except Failed as problem:
        reference["problem"] = problem

    thread = threading.Thread(target=plain)
    thread.start()
    try:
      ours = self.run(cmds[0], **options)
    finally:
      thread.join()
    if "problem" in reference:
      raise reference["problem"]
    name, ours.file = os.path.basename(cmd[0]), files[0]
    same(f"output of {name}", ours.out, reference["run"].out)
    if OUTPUT in cmd:
      expect(os.path.getsize(files[0]) > 0, f"{name} wrote an empty file")
      same(f"file written by {name}", checksum(files[0]), checksum(files[1]))
    return ours

  def daemon(self, cmd, preload=True, env=None, cwd=None):
    """Starts a server; what it writes goes to the file `process.log`."""
    log = self.path(f"log-{next(self.count)}")
    with open(log, "wb") as f:
      process = self.spawn(cmd, preload, "bindings", f, f, env, cwd)
    process.log, process.preload = log, preload
    self.daemons.append(process)
    if preload:
      wait_for(f"{cmd[0]} maps the library",
               lambda: process.poll() is not None or self.maps_library(process.pid), 20)
    expect(process.poll() is None, f"{cmd[0]}: {describe(process.poll() or 0)} at once\n"
           + self.log(process))
    return process

  def log(self, process):
    """The end of what a server wrote."""
    with open(process.log, encoding="utf-8", errors="replace") as f:
      return tail(f.read())

  def stop(self, process, number=signal.SIGTERM, timeout=60):
    """Asks a server to end, waits for it, and checks its end and the proofs."""
    if process.poll() is None and number:
      process.send_signal(number)
    try:
      code = process.wait(limit(timeout))
    except subprocess.TimeoutExpired as late:
      raise Failed(f"{process.name}: still running {limit(timeout)} s after it was asked to end\n"
                   + self.log(process)) from late
    expect(code == 0, f"{process.name}: {describe(code)}\n" + self.log(process))
    if process.preload:
      with open(process.log, encoding="utf-8", errors="replace") as f:
        text = f.read()
      self.check_reports(process.name, text)
      self.check_verbose(process.name, text)
      self.check_bindings(process)

  def end_group(self, process):
    """Ends what is left of a process's group."""
    try:
      os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
      pass
    process.poll() is not None or process.wait()

  def close(self):
    for process in self.daemons:
      if process.poll() is None:
        process.terminate()
        try:
          process.wait(5)
        except subprocess.TimeoutExpired:
          pass
      self.end_group(process)

  # -- the proofs

  def maps_library(self, pid):
    """Does the process map the library?"""
    try:
      with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as f:
        return os.path.realpath(self.library) in f.read()
    except OSError:
      return False

  def check_verbose(self, name, text):
    """Fails unless the library spoke on standard error."""
    expect(re.search(r"^mimalloc: ", text, re.M),
           f"{name}: no `mimalloc:` line on standard error: {self.library} did not serve it\n"
           + tail(text, 8))

  def check_reports(self, name, text):
    """Fails if the library reported misuse, which an unchanged program does not commit."""
    found = REPORT.search(text)
    expect(not found, f"{name}: {found.group(0) if found else ''}")

  def check_bindings(self, process):
    """Reads the linker's notes: which library served malloc in the process and in its descendants."""
    target, served = os.fsencode(self.library), set()
    folder, stem = os.path.split(process.trace)
    for entry in os.listdir(folder):
      if not entry.startswith(stem + "."):
        continue
      pid = int(entry.rsplit(".", 1)[1])
      with open(os.path.join(folder, entry), "rb") as f:
        for user, owner, symbol in BINDING.findall(f.read()):
          if owner == target:
            served.add(pid)
          # A program may take the address of a function through a table of its own, and the
          # library may ask for whom it stands in front of; nobody else may go past it.
          elif b".so" in os.path.basename(owner) and user != target:
            raise Failed(f"{process.name}: process {pid}: {os.path.basename(user).decode()} bound "
                         f"{symbol.decode()} to {owner.decode()}, not to {self.library}")
    expect(process.pid in served, f"{process.name}: never bound malloc to {self.library}")
    self.images.update({process.name: len(served)})

  def summary(self):
    """How many processes the proofs counted, by the program that the test started."""
    return "; ".join(f"{text}: " + ", ".join(f"{n} under {name}" for name, n in counts.items())
                     for text, counts in (("process images with malloc bound to the library",
                                           self.images),
                                          ("processes seen to map it", self.mapped)) if counts)

  def say(self, text):
    print(f"{self.name}: {text}", flush=True)


def fresh_folder(name, base):
  """A new folder in `base`, which is made, or in the system's folder for temporary files (None)."""
  if base:
    os.makedirs(base, exist_ok=True)
  return os.path.realpath(tempfile.mkdtemp(prefix=f"mi-{name}-", dir=base))


def open_session(name, heavy, unprivileged):
  """Makes the work folder. A program that refuses to run as root gets a user, and a copy of
  the library that this user can read, since the build tree may be closed to it."""
  library = os.environ.get("MI_LIB", "")
  if not os.path.isabs(library):
    raise Failed("MI_LIB must be the absolute path of the library to test")
  if not os.path.isfile(library):
    raise Failed(f"MI_LIB: {library}: no such file")
  base, user = os.environ.get("MI_WORK"), None
  if unprivileged:
    base = None  # The short path of a socket, and a place that the user may enter.
  if unprivileged and os.geteuid() == 0:
    known = [u for u in ("postgres", "nobody") if u in {p.pw_name for p in pwd.getpwall()}]
    if not known:
      raise Skipped("no unprivileged user to run as")
    user = pwd.getpwnam(known[0])
  work = fresh_folder(name, base)
  session = Session(name, library, work, heavy, user)
  if user:
    session.library = shutil.copy(os.path.realpath(library), session.path("library.so"))
    os.chmod(session.library, 0o755)
    for folder in (work, session.traces):
      os.chown(folder, user.pw_uid, user.pw_gid)
  return session


def asked_to_end(*_):
  raise Failed("asked to end (SIGTERM) before it was done")


def main(test, unprivileged=False):
  """Runs one test function and turns its end into an exit code."""
  name = os.path.basename(sys.argv[0]).rsplit(".", 1)[0]
  heavy, session, code = "--heavy" in sys.argv[1:], None, 1
  signal.signal(signal.SIGTERM, asked_to_end)
  begun = time.monotonic()
  try:
    session = open_session(name, heavy, unprivileged)
    test(session)
    served = session.summary()
    if not served:
      raise Failed("nothing ran on the library")
    session.say(served)
    print(f"{name}: passed in {time.monotonic() - begun:.1f} s")
    code = 0
  except Skipped as why:
    print(f"{name}: skipped: {why}")
    code = SKIP
  except Failed as why:
    print(f"{name}: FAILED: {why}")
  except Exception:  # A defect of the test itself is a failure, never a pass.
    print(f"{name}: FAILED:\n{traceback.format_exc()}")
  finally:
    if session:
      session.close()
      if code == 1:
        print(f"{name}: kept {session.work}")
      else:
        shutil.rmtree(session.work, ignore_errors=True)
  sys.exit(code)
