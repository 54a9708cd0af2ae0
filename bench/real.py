# SPDX-License-Identifier: MIT
"""Programs that users have, run on the allocators: interpreters, a database, a compiler, a prover.

Each function here prepares one of them: it writes the input to a directory and returns a Job. The
input follows from the scale alone, and the output is compared with what is known beforehand, so a
run that went wrong is never quoted. Packages are installed by the runner when they are missing.
"""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

INPUTS = Path(__file__).resolve().parent / "inputs"
JOBS = max(2, os.cpu_count() or 1)


@dataclass
class Job:
    command: list
    expected: str = ""  # must stand in the output
    stdin: Optional[Path] = None
    environment: dict = field(default_factory=dict)
    # Drives a server from outside: called with the directory, returns the figures it measured.
    driver: Optional[Callable] = None


@dataclass(frozen=True)
class Tool:
    """A real program: `executables` must be on the path, else `packages` are installed."""

    name: str
    executables: tuple
    packages: tuple
    prepare: Callable
    version: tuple = ("--version",)  # a short command, for the check that the preload is in effect
    seconds: float = 1.5
    group: str = "programs"

    def missing(self):
        return set() if all(shutil.which(e) for e in self.executables) else set(self.packages)

    def job(self, _build, directory, scale):
        return self.prepare(directory, scale)

    def probe(self, _build):
        return [self.executables[0], *self.version]

    def describe(self):
        return f"{self.executables[0]}: {self.prepare.__doc__ or self.name}"


def scaled(amount, scale):
    return max(1, round(amount * scale))


def python(_directory, scale):
    """objects, dictionaries, JSON and regular expressions, PYTHONMALLOC=malloc"""
    return Job([sys.executable, "-s", INPUTS / "objects.py", scaled(20, scale)],
               "objects: all rounds right")


def lua(_directory, scale):
    """strings, tables and closures"""
    return Job(["lua5.4", INPUTS / "strings.lua", scaled(40, scale)], "strings: all rounds right")


SQL = """
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, bucket INTEGER, value REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
  INSERT INTO item SELECT i, 'name ' || (i * 7919 % {rows}), i % 100, i * 0.5 FROM n;
CREATE INDEX by_name ON item(name);
CREATE INDEX by_bucket ON item(bucket, value);
SELECT 'buckets', count(*) FROM (SELECT bucket, sum(value), group_concat(name)
  FROM item GROUP BY bucket);
UPDATE item SET name = name || '-' || bucket WHERE id % 3 = 0;
DELETE FROM item WHERE id % 5 = 0;
SELECT 'rows', count(*), count(DISTINCT name) > 0 FROM item;
SELECT 'joined', count(*) FROM item a JOIN item b ON b.id = a.id + 1 WHERE a.bucket < 50;
VACUUM;
SELECT 'check', integrity_check FROM pragma_integrity_check;
"""


def sqlite(directory, scale):
    """an in-memory database: inserts, indexes, grouping, deletes, vacuum"""
    rows = scaled(200, scale) * 1000
    script = directory / "work.sql"
    script.write_text(SQL.format(rows=rows), encoding="utf-8")
    return Job(["sqlite3", "-batch", ":memory:"], f"rows|{rows - rows // 5}|1", stdin=script)


def pigeons(holes):
    """Clauses saying that `holes` + 1 pigeons sit in as many holes, one each: impossible."""
    lines = [f"(declare-const p{i}_{j} Bool)" for i in range(holes + 1) for j in range(holes)]
    for i in range(holes + 1):
        lines.append("(assert (or %s))" % " ".join(f"p{i}_{j}" for j in range(holes)))
    for j in range(holes):
        for i in range(holes + 1):
            for k in range(i):
                lines.append(f"(assert (not (and p{i}_{j} p{k}_{j})))")
    return lines


def z3_script(number):
    """One theory after another: propositional, integers, bit vectors and arrays."""
    lines = ["(push)", *pigeons(6), "(check-sat)", "(pop)", "(push)"]
    for i in range(60):
        lines.append(f"(declare-const x{i} Int)")
        lines.append(f"(assert (and (> x{i} {i}) (< x{i} {i + 400 + number})))")
        if i:
            lines.append(f"(assert (or (> x{i} (+ x{i - 1} 3)) (= (* 2 x{i}) (+ x{i - 1} {i}))))")
    lines += ["(check-sat)", "(pop)", "(push)", "(declare-const a (_ BitVec 12))",
              "(declare-const b (_ BitVec 12))",
              "(assert (not (= (bvmul (bvadd a b) (bvsub a b)) "
              "(bvsub (bvmul a a) (bvmul b b)))))",
              f"(assert (bvult a #x{40 + number % 10:03x}))",
              f"(assert (bvult b #x{24 + number % 10:03x}))", "(check-sat)", "(pop)", "(push)",
              "(declare-const m (Array Int Int))"]
    for i in range(40):
        lines.append(f"(assert (= (select (store m {i} {i + 1}) {i}) (select m {i + 1})))")
    lines += ["(assert (not (= (select m 5) 5)))", "(check-sat)", "(pop)"]
    return lines


def z3(directory, scale):
    """propositional, integer, bit-vector and array problems"""
    count = scaled(60, scale)
    script = directory / "work.smt2"
    script.write_text("\n".join(line for n in range(count) for line in z3_script(n)) + "\n",
                      encoding="utf-8")
    return Job(["z3", script], "unsat\nsat\nunsat\nunsat\n" * count)


def ghostscript(directory, scale):
    """pages of text and curves from PostScript to PDF"""
    return Job(["gs", "-q", "-dBATCH", "-dNOPAUSE", "-dSAFER", f"-dPAGES={scaled(50, scale)}",
                "-sDEVICE=pdfwrite", f"-sOutputFile={directory / 'pages.pdf'}",
                INPUTS / "pages.ps"], "pages: all shown")


def layers(scale):
    return f"-DLAYERS={max(5, min(60, scaled(60, scale)))}"


def compiler(directory, scale):
    """one translation unit with large headers and deep templates"""
    return Job(["g++", "-std=c++17", "-O0", layers(scale), "-c", INPUTS / "heavy.cc", "-o",
                directory / "heavy.o"])


MAKEFILE = """
all: {targets}
\t@echo compiled {count} files
heavy-%.o:
\t@g++ -std=c++17 -O0 -DVARIANT=$* {layers} -c {source} -o $@
"""


def parallel_compile(directory, scale):
    """the big concurrent program: a build with as many jobs as processors"""
    count = JOBS if scale < 1 else 2 * JOBS
    work = directory / "build"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    targets = " ".join(f"heavy-{n}.o" for n in range(count))
    (work / "Makefile").write_text(
        MAKEFILE.format(targets=targets, count=count, layers=layers(scale),
                        source=INPUTS / "heavy.cc"),
        encoding="utf-8")
    return Job(["make", "-B", "-s", "-C", work, f"-j{JOBS}"], f"compiled {count} files")


class RedisDriver:
    """Pushes ten elements to a list and reads the first ten, a million times each at full scale.
    The time is the client's; memory and processor time are the server's."""

    def __init__(self, requests, socket):
        self.requests, self.socket = requests, socket

    def client(self, tool, *arguments):
        """What the client printed; nothing when it failed or hung."""
        try:
            done = subprocess.run([tool, "-s", self.socket, *map(str, arguments)],
                                  capture_output=True, text=True, check=False, timeout=60)
        except subprocess.TimeoutExpired:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    def __call__(self):
        limit = time.monotonic() + 20
        while self.client("redis-cli", "ping") != "PONG":
            if time.monotonic() > limit:
                return {"failed": "the server did not answer"}
            time.sleep(0.02)
        load = ["-q", "-n", self.requests, "-r", 10000, "-P", 16, "-c", 20]
        began = time.monotonic()
        pushed = self.client("redis-benchmark", *load, "lpush", "list:__rand_int__",
                             *(f"element-{n}" for n in range(10)))
        read = pushed and self.client("redis-benchmark", *load, "lrange", "list:__rand_int__", 0, 9)
        if not read:
            return {"failed": "the server failed under load"}
        wall = time.monotonic() - began
        total = self.client("redis-cli", "eval", "local n = 0; for _, k in ipairs(redis.call("
                            "'keys', '*')) do n = n + redis.call('llen', k) end; return n", 0)
        self.client("redis-cli", "shutdown", "nosave")
        if total != str(10 * self.requests):
            return {"failed": f"{total} elements in the lists, not {10 * self.requests}"}
        return {"wall": wall}


def redis(directory, scale):
    """a server: pushing ten list elements and reading the first ten, a million times each"""
    socket = directory / "redis.sock"
    return Job(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "",
                "--appendonly", "no", "--dir", directory],
               driver=RedisDriver(scaled(1000, scale) * 1000, str(socket)))


TOOLS = [
    Tool("python", (sys.executable,), ("python3",), python),
    Tool("sqlite", ("sqlite3",), ("sqlite3",), sqlite),
    Tool("z3", ("z3",), ("z3",), z3),
    Tool("ghostscript", ("gs",), ("ghostscript",), ghostscript),
    Tool("lua", ("lua5.4",), ("lua5.4",), lua, ("-v",)),
    Tool("g++", ("g++",), ("g++",), compiler),
    Tool(f"make-{JOBS}", ("g++", "make"), ("g++", "make"), parallel_compile, seconds=5),
    Tool("redis", ("redis-server", "redis-benchmark", "redis-cli"),
         ("redis-server", "redis-tools"), redis, seconds=5),
]
