#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Replays the traces of bench/traces with every allocator that is found; records them anew.

  traces.py [TRACE...] [-a A,B] [--rounds N] [--out DIR]    tables, results.json and traces.svg
  traces.py --record [NAME...]                              records the programs below again
  traces.py --table [--check]                               writes the list of docs/trace.md

The programs are small work of their kinds, so that the traces are: what each does stands in
PROGRAMS.
One that is not installed is named and its trace left as it is.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "trace"))

import allocators  # noqa: E402
import charts  # noqa: E402
from mimalloc_trace import Refusal, replay, tools  # noqa: E402

FOLDER = HERE / "traces"
TOOL = HERE.parent / "trace" / "mimalloc-trace"
PYTHON = "/usr/bin/python3"
SOURCES = HERE.parent / "src" / "static.c"
SQL = ("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
       "SELECT i + 1 FROM n WHERE i < 8000) "
       "INSERT INTO t SELECT i, 'name ' || i * 7919 % 8000 FROM n; "
       "CREATE INDEX by_b ON t(b); SELECT count(*) FROM t x JOIN t y ON x.b = y.b; "
       "DELETE FROM t WHERE a % 3 = 0; VACUUM;")
OBJECTS = ("import json, re\nfor turn in range(3):\n"
           "  d = {str(i): [i, {'k': 'v' * (i % 50)}] for i in range(4000)}\n"
           "  d = json.loads(json.dumps(d)); n = len(re.findall('v+', json.dumps(d)))\n")
THREADS = ("import queue, threading\nq = queue.Queue()\n"
           "def make():\n  for i in range(4000): q.put([str(i)] * (i % 30))\n"
           "def take():\n  for i in range(4000): q.get()\n"
           "t = [threading.Thread(target=f) for f in (make, take) * 2]\n"
           "[x.start() for x in t]; [x.join() for x in t]\n")
WORDS = ("my (%h, @a); for my $i (1 .. 20000) { my $w = join '-', $i % 997, 'x' x ($i % 40); "
         "push @{$h{$w}}, $i; @a = sort { $a cmp $b } keys %h if $i % 5000 == 0; "
         "delete $h{$a[$i % @a]} if @a && $i % 3 == 0 }")
LUA = ("local t = {} for r = 1, 5 do for i = 1, 6000 do t[i] = {name = 'n' .. i * r, "
       "sub = {i, r}} end "
       "table.sort(t, function(a, b) return a.name < b.name end) end print(#t)")
AWK = ("BEGIN { for (i = 0; i < 60000; i++) { a[i % 7001] = a[i % 7001] i; "
       "if (i % 9 == 0) delete a[i % 5003] } }")

# A server with clients of its own, which end it; the process that is recorded is the server's.
REDIS = ("d=$(mktemp -d); s=$d/socket; (until redis-cli -s $s ping; do sleep 0.1; done; "
         "redis-benchmark -q -s $s -c 20 -n 1200 -r 1000 -d 200 -t set,get,incr,lpush,rpop,sadd,"
         "hset,zadd,lrange_100,mset; redis-benchmark -q -s $s -n 1000 -r 500 -d 3000 -P 8 -t set; "
         "redis-cli -s $s shutdown nosave; rm -r $d) & "
         "exec redis-server --port 0 --unixsocket $s --save ''")
# Matrices that come and go, a transform, a regression, data in groups, strings.
R = ("set.seed(7); for (i in 1:8) { m <- matrix(rnorm(40000), 200); "
     "s <- solve(crossprod(m) + diag(200)); e <- svd(m[, 1:60])$d; f <- Re(fft(rnorm(2^14))) }; "
     "d <- data.frame(x = rnorm(6000), g = sample(letters, 6000, TRUE)); "
     "d$y <- 3 * d$x + rnorm(6000); a <- aggregate(y ~ g, d, mean); l <- lm(y ~ x + g, d); "
     "b <- replicate(60, coef(lm(y ~ x, d[sample(6000, 1000), ]))); o <- d[order(d$g, d$x), ]; "
     "w <- split(paste(d$g, round(d$x, 3)), d$g); z <- sapply(w, function(v) length(unique(v)))")

# Name: command, which of its recordings is meant (1: the program itself), environment.
PROGRAMS = {
    "python": ([PYTHON, "-c", OBJECTS], 1, {"PYTHONMALLOC": "malloc"}),
    "python-threads": ([PYTHON, "-c", THREADS], 1, {"PYTHONMALLOC": "malloc"}),
    "sqlite": (["sqlite3", ":memory:", SQL], 1, {}),
    "perl": (["perl", "-e", WORDS], 1, {}),
    "lua": (["lua5.4", "-e", LUA], 1, {}),
    "awk": (["awk", AWK], 1, {}),
    "gcc": (["gcc", "-O2", "-Iinclude", "-c", "-o", "/dev/null", "trace/load.c"], 2, {}),
    "g++": (["g++", "-std=c++17", "-DLAYERS=5", "-c", "-o", "/dev/null",
             "bench/inputs/heavy.cc"], 2, {}),
    "git": (["git", "log", "--stat", "--format=%h %s", "-n", "60"], 1, {"GIT_PAGER": "cat"}),
    "xz": (["xz", "-kc", "-T2", "--block-size=65536", "-1", "bench/inputs/pages.ps"], 1, {}),
    "sort": (["sort", "--parallel=2", "docs/decisions.md"], 1, {}),
    "doxygen": (["doxygen", "-g", "-"], 1, {}),
    "gdb": (["gdb", "-batch", "-ex", "info line main", "out/release/mimalloc-trace-pack"], 1, {}),
    "ghostscript": (["gs", "-q", "-dBATCH", "-dNOPAUSE", "-dSAFER", "-dPAGES=1", "-sDEVICE=nullpage",
                     "bench/inputs/pages.ps"], 1, {}),
    "openssl": (["openssl", "genrsa", "1024"], 1, {}),
    "redis": (["sh", "-c", REDIS], 1, {}),
    "R": (["Rscript", "--vanilla", "-e", R], 1, {"OPENBLAS_NUM_THREADS": "1"}),
}


# What the programs do, for the table.
KINDS = {
    "R": "scientific: matrices, a transform, regressions, data in groups",
    "awk": "text: an array of strings that grow",
    "doxygen": "a large settings file read and written",
    "g++": "C++ compiler: many templates",
    "gcc": "C compiler",
    "gdb": "debugger: the symbols of a program",
    "ghostscript": "a page of PostScript",
    "git": "log with the files of each commit",
    "lua": "interpreter: tables of tables, sorted",
    "openssl": "large numbers: a key",
    "perl": "interpreter: hashes of lists of strings",
    "python": "interpreter: objects, JSON, regular expressions",
    "python-threads": "interpreter: four threads with a queue",
    "redis": "server under load: 20 to 50 clients, ten kinds of calls",
    "sort": "lines of text",
    "sqlite": "database in memory: rows, an index, a join, VACUUM",
    "xz": "compression in two threads: few large blocks",
}
DOCUMENT = HERE.parent / "docs" / "trace.md"
BEGIN = "<!-- traces: begin (written by `bench/traces.py --table`) -->\n"
END = "<!-- traces: end -->\n"


def rows():
    """The lines of the table of all traces, by what their heads say."""
    yield "| trace | program | calls | threads | MiB asked for at once | bytes of the file |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    whole = 0
    for path in sorted(FOLDER.glob("*.trace"), key=lambda path: path.stem.lower()):
        told, size = tools.head_of_packed(path), path.stat().st_size
        whole += size
        yield (f"| `{path.stem}` | {KINDS[path.stem]} | {told['calls']:,} | {told['threads']} | "
               f"{replay.mib(told['peak_bytes'])} | {size:,} |")
    yield f"| | all | | | | {whole:,} |"


def list_all(is_check):
    text = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = before + BEGIN + "".join(f"{row}\n" for row in rows()) + END + after
    if is_check and text != wanted:
        print("traces: docs/trace.md does not list what is there: python3 bench/traces.py --table")
        return 1
    DOCUMENT.write_text(wanted, encoding="utf-8")
    return 0


def record(names):
    for name in names or PROGRAMS:
        command, which, environment = PROGRAMS[name]
        if shutil.which(command[0]) is None:
            print(f"traces: there is no {command[0]}; {name} stays as it is")
            continue
        with tempfile.TemporaryDirectory() as scratch:
            first = Path(scratch) / "t.trace"
            done = subprocess.run(
                [sys.executable, TOOL, "record", "-o", first, "--children", "--", *command],
                cwd=HERE.parent, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
                timeout=300)
            path = first if which == 1 else Path(scratch) / f"t-{which}.trace"
            if not path.exists() or done.returncode != 0:
                print(f"traces: {name}: {done.stderr.strip()}")
                continue
            FOLDER.mkdir(exist_ok=True)
            shutil.copyfile(path, FOLDER / f"{name}.trace")
        print(f"{name}: {(FOLDER / (name + '.trace')).stat().st_size} bytes")
    return 0


def play(options):
    chosen = [replay.Allocator(a.name, a.library, ())
              for a in allocators.from_arguments(options)]
    for allocator in allocators.from_arguments(options):
        print(f"{allocator.name}: {allocators.version(allocator)}")
    options.out.mkdir(parents=True, exist_ok=True)
    paths = [Path(t) if Path(t).exists() else FOLDER / f"{t}.trace" for t in options.traces]
    results = []
    for path in paths or sorted(FOLDER.glob("*.trace")):
        results.append(replay.replay(path, chosen, options.rounds))
        print("", *replay.table(results[-1]), sep="\n", flush=True)
    told = options.out / "results.json"
    told.write_text(json.dumps(results), encoding="utf-8")
    print("", *summary(results), sep="\n")
    python = charts.python_with_matplotlib(options.out)
    if python:
        subprocess.run([python, HERE.parent / "trace" / "mimalloc_trace" / "plot.py", told,
                        options.out / "traces.svg"], check=True)
    return 1 if any("failed" in a for r in results for a in r["allocators"].values()) else 0


def summary(results):
    """Geometric means over the traces that an allocator finished, relative to the first one."""
    from statistics import geometric_mean  # pylint: disable=import-outside-toplevel

    names = list(results[0]["allocators"]) if results else []
    yield f"geometric means to {names[0] if names else ''}: processor time, peak, mean memory"
    for name in names:
        pairs = [(r["allocators"][name], r["allocators"][names[0]]) for r in results]
        pairs = [(a, b) for a, b in pairs if "failed" not in a and "failed" not in b]
        cells = []
        for key in ("cpu", "peak", "mean"):
            ratios = [a[key] / b[key] for a, b in pairs if a[key] and b[key]]
            cells.append(f"{geometric_mean(ratios):6.2f}" if ratios else "     -")
        yield f"  {name:<16} {' '.join(cells)}   ({len(pairs)} traces)"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--check", action="store_true", help="of the list: compare, do not write")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE.parent / "out" / "traces")
    allocators.add_arguments(parser)
    options = parser.parse_args()
    unknown = [n for n in options.traces if options.record and n not in PROGRAMS]
    if unknown:
        sys.exit(f"traces: no program is called {unknown[0]}; known: {', '.join(PROGRAMS)}")
    if options.table:
        return list_all(options.check)
    try:
        return record(options.traces) if options.record else play(options)
    except Refusal as refusal:
        sys.exit(f"traces: {refusal}")


if __name__ == "__main__":
    sys.exit(main())
