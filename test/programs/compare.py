# SPDX-License-Identifier: MIT
"""Time and peak memory of real programs on several allocators, side by side.

The comparison of whole programs for docs/programs.md. Each program is run once for every
allocator with the linker's notes on, to prove that this allocator served it (also the system's,
since a server may be linked with another one: it is preloaded like the rest), then measured
`--runs` times without. Rounds are interleaved and the order of the allocators turns by one with
each round, so that a slow moment of the machine hits all of them.

Time is the wall time of the program, for a server that of its clients. Memory is ru_maxrss as
wait4 reports it: the peak of the largest process of the tree. A run whose output differs from the
first one's is an error, never a figure. Prints Markdown: medians, the spread of the runs (half of
the range between the quartiles), and ratios to ours, or to glibc when there is no library of ours.

Invariant: a program needs more memory than this script, whose own peak a child inherits between
fork and exec; the script refuses to quote one that does not.
"""
import argparse
import glob
import hashlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import gxx_source
from harness import Failed, Session, Skipped, expect, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = {
  "glibc": ("libc.so.6", "libc6"),
  "jemalloc": ("libjemalloc.so.2", "libjemalloc2"),
  "tcmalloc": ("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
  "tbbmalloc": ("libtbbmalloc_proxy.so.2", "libtbbmalloc2"),
  "mimalloc 2": ("libmimalloc.so.2*", "libmimalloc2.0"),
}

PYTHON_LOAD = """
import json
rows, words = {}, []
for i in range(400000):
  rows['key %d' % (i * 7919 % 1000003)] = [i, str(i) * (i % 7), {'n': i}]
  if i % 2: words.append(('word %d ' % i) * (i % 30))
  if i % 5000 == 0: words = words[len(words) // 2:]
text = json.dumps(rows)
back = json.loads(text)
lines = sorted(text.replace('], ', '],\\n').split('\\n'), key=len)
print(len(back), len(text), back == rows, len(lines), sum(map(len, words)))
"""


class Run:
  """One finished run: wall seconds, processor seconds, peak KiB, and a digest of the output."""

  def __init__(self, wall, usage, output):
    self.wall, self.cpu = wall, usage.ru_utime + usage.ru_stime
    self.peak, self.output = usage.ru_maxrss, output


def finish(process, begun=None):
  """Waits for a process and takes what it used."""
  begun = begun or time.monotonic()
  _, status, usage = os.wait4(process.pid, 0)
  process.returncode = os.waitstatus_to_exitcode(status)
  expect(process.returncode == 0, f"{process.name}: exit status {process.returncode}")
  return time.monotonic() - begun, usage


def simple(make):
  """A program that runs to its end; `make` gives its command once, and its environment."""
  prepared = {}

  def run(session, proof):
    if not prepared:
      prepared["cmd"], prepared["env"] = make(session)
    path = session.path("out")
    with open(path, "w+b") as out, open(session.path("err"), "wb") as err:
      begun = time.monotonic()
      process = session.spawn(prepared["cmd"], True, proof, out, err, prepared["env"])
      wall, usage = finish(process, begun)
      out.seek(0)
      digest = hashlib.sha256(out.read()).hexdigest()
    if proof == "bindings":
      session.check_bindings(process)
    return Run(wall, usage, digest)

  return run


def gxx(session):
  path = session.path("large.cc")
  with open(path, "w", encoding="ascii") as f:
    f.write(gxx_source.source(6))
  # The assembler's text is the output: it must be the same on every allocator.
  return [session.need("g++"), "-std=c++20", "-O2", "-S", path, "-o", "/dev/stdout"], {}


def python(session):
  path = session.path("load.py")
  with open(path, "w", encoding="ascii") as f:
    f.write(PYTHON_LOAD)
  name = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
  return [name, path], {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}


def script(program, name, *arguments):
  return lambda session: ([session.need(program), os.path.join(HERE, "load", name), *arguments],
                          {"PERL_HASH_SEED": "0"})


def redis(session, proof):
  """A server under a load of short and long lists, keys and hashes; the memory is the server's."""
  path, bench, cli = session.need("redis-server", "redis-benchmark", "redis-cli")
  with open(session.path("log"), "wb") as log:
    server = session.spawn([path, "--port", "0", "--unixsocket", "redis.sock", "--save", ""],
                           True, proof, log, log)

  def ask(*words):
    return subprocess.run([cli, "-s", "redis.sock", *words], cwd=session.work, text=True,
                          capture_output=True, check=False).stdout.strip()

  try:
    wait_for("the server answers", lambda: ask("PING") == "PONG", 20)
    begun = time.monotonic()
    for tests, count, spread in (("set,get,hset,zadd", 400000, "400000"),
                                 ("lpush,lpop,rpush", 400000, "1"), ("lrange_100", 20000, "1")):
      subprocess.run([bench, "-s", "redis.sock", "-c", "40", "-P", "16", "-d", "150", "-r", spread,
                      "-n", str(count), "-t", tests, "-q"], cwd=session.work, check=True,
                     stdout=subprocess.DEVNULL)
    wall = time.monotonic() - begun
    length = ask("LLEN", "mylist")
    ask("SHUTDOWN", "NOSAVE")
    _, usage = finish(server)
  finally:
    session.end_group(server)
  if proof == "bindings":
    session.check_bindings(server)
  return Run(wall, usage, length)


PROGRAMS = {
  "g++": simple(gxx), "python": simple(python), "redis": redis,
  "perl": simple(script("perl", "strings.pl", "400000")),
  "ruby": simple(script("ruby", "strings.rb", "600000")),
  "lua": simple(script("lua5.4", "strings.lua", "1200000")),
  "node": simple(script("node", "churn.js", "12")),
}


def allocators(options):
  """Names and paths of the allocators to compare; says which are missing."""
  found = {}
  for name, (pattern, package) in PEERS.items():
    paths = [p for folder in ("/usr/lib/*-linux-gnu*", "/lib/*-linux-gnu*", "/usr/lib", "/lib64")
             for p in sorted(glob.glob(os.path.join(folder, pattern)))]
    if paths:
      found[name] = paths[0]
    else:
      print(f"compare.py: {name} is not installed (package {package})", file=sys.stderr)
  for peer in options.peer:
    name, path = peer.split("=", 1)
    found[name] = os.path.abspath(path)
  if options.ours:
    found["ours"] = os.path.abspath(options.ours)
  return found


def measure(options, found):
  """All runs: a list of `Run` for each program and allocator, in rounds."""
  runs, names = {}, list(found)
  work = tempfile.mkdtemp(prefix="mi-compare-")
  try:
    session = Session("compare", "", work, False)
    total, done = len(options.programs) * len(names) * (options.runs + 1), 0
    for turn in range(options.runs + 1):
      for program in options.programs:
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
          session.library = found[name]
          run = PROGRAMS[program](session, "bindings" if turn == 0 else None)
          done += 1
          print(f"\r{done} of {total}: {program} on {name}        ", end="", file=sys.stderr)
          first = runs.setdefault((program, name), [])
          if turn:
            first.append(run)
          expect(run.output == runs.setdefault((program, ""), [run])[0].output,
                 f"{program} on {name}: another output than before")
          expect(run.peak > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
                 f"{program} needs less memory than this script")
    print(file=sys.stderr)
  finally:
    session.close()
    shutil.rmtree(work)
  return runs


def spread(values):
  """Half the distance between the quartiles, in percent of the median."""
  if len(values) < 3:
    return "?"
  low, middle, high = statistics.quantiles(values, n=4)
  return f"{(high - low) / 2 / middle * 100:.0f}"


def table(title, unit, runs, options, names, value):
  """One Markdown table of medians and ratios."""
  base = "ours" if "ours" in names else names[0]
  print(f"\n{title}: median in {unit} ± half the quartile range in %, ratio to {base}\n")
  print("| program | " + " | ".join(names) + " |\n| --- |" + " ---: |" * len(names))
  ratios = {name: [] for name in names}
  for program in options.programs:
    sample = {name: [value(run) for run in runs[program, name]] for name in names}
    middle = {name: statistics.median(values) for name, values in sample.items()}
    cells = []
    for name in names:
      ratios[name].append(middle[name] / middle[base])
      cells.append(f"{middle[name]:.2f} ±{spread(sample[name])} ({ratios[name][-1]:.2f})")
    print(f"| {program} | " + " | ".join(cells) + " |")
  print("| geometric mean | " + " | ".join(
    f"({statistics.geometric_mean(ratios[name]):.3f})" for name in names) + " |")


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--ours", default=os.environ.get("MI_LIB"), help="the library to compare")
  parser.add_argument("--peer", action="append", default=[], metavar="NAME=PATH",
                      help="another library to compare")
  parser.add_argument("--runs", type=int, default=5)
  parser.add_argument("--programs", default="g++,python,redis", type=lambda x: x.split(","),
                      help="of " + ", ".join(PROGRAMS))
  parser.add_argument("--json", help="write every run to this file")
  options = parser.parse_args()
  if unknown := set(options.programs) - set(PROGRAMS):
    parser.error(f"unknown program: {', '.join(unknown)}")
  found = allocators(options)
  try:
    runs = measure(options, found)
  except (Failed, Skipped) as problem:
    print(f"\ncompare.py: {problem}", file=sys.stderr)
    return 1
  names = list(found)
  if options.json:
    with open(options.json, "w", encoding="ascii") as f:
      json.dump([{"program": p, "allocator": a, "library": found[a],
                  "runs": [vars(run) for run in done]}
                 for (p, a), done in runs.items() if a], f, indent=1)
  print(f"{options.runs} interleaved runs of each, {os.cpu_count()} processors")
  table("Wall time", "s", runs, options, names, lambda run: run.wall)
  table("Processor time", "s", runs, options, names, lambda run: run.cpu)
  table("Peak memory", "MiB", runs, options, names, lambda run: run.peak / 1024)
  return 0


if __name__ == "__main__":
  sys.exit(main())
