# SPDX-License-Identifier: MIT
"""Tests of the runner itself: `python3 -m unittest discover -s bench`.

The suite is worth what its refusals are worth, so each of them is provoked once here: a library
that hands a block out twice, one that has no malloc, one that never ends, a wrong output.
"""

import contextlib
import io
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import allocators
import build
import instructions
import measure
import report
import suite
from real import Job

# The block of 333 bytes is given out again and again, and never taken back.
GIVES_TWICE = """
#include <stddef.h>
extern void* __libc_malloc(size_t);
extern void __libc_free(void*);
static __thread void* shared;
void* malloc(size_t size) {
  if (size != 333) return __libc_malloc(size);
  if (shared == NULL) shared = __libc_malloc(size);
  return shared;
}
void free(void* block) { if (block == NULL || block != shared) __libc_free(block); }
"""

NO_MALLOC = "int something_else;\n"


def run_of(program, allocator, wall, **more):
    return {"program": program, "allocator": allocator, "wall": wall, "user": wall, "sys": 0.0,
            "rss_kib": 1024, "minor_faults": 1, "major_faults": 0, "voluntary_switches": 1,
            "involuntary_switches": 0, **more}


class Refusals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.directory = Path(cls.scratch.name)
        cls.build = build.ROOT / "out" / "bench-build"
        build.programs(cls.build)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def library(self, name, source):
        path = self.directory / name
        path.with_suffix(".c").write_text(source, encoding="utf-8")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-o", path,
                        path.with_suffix(".c")], check=True)
        return str(path)

    def run_job(self, job, library="", timeout=30):
        return measure.run(self.build / "launch", job, library, self.directory, timeout)

    def random_job(self):
        return Job([self.build / "random", 1, 200000, 16, 1024, 512], "random:")

    def test_sound_run_counts(self):
        figures = self.run_job(self.random_job())
        self.assertNotIn("failed", figures)
        self.assertGreater(figures["wall"], 0)
        # No trace of this test's own resident memory.
        self.assertLess(figures["rss_kib"], 6000)

    def test_block_given_twice(self):
        figures = self.run_job(self.random_job(), self.library("twice.so", GIVES_TWICE))
        self.assertEqual(figures["failed"], "exit code 1")
        self.assertIn("was overwritten", figures["output"])

    def test_library_without_malloc(self):
        library = self.library("none.so", NO_MALLOC)
        _, problem = measure.preload_for([self.build / "random", 1, 1], library,
                                         self.build / "system-malloc.so", self.directory)
        self.assertIn("malloc is bound to", problem)

    def test_library_with_malloc(self):
        library = self.library("twice.so", GIVES_TWICE)
        _, problem = measure.preload_for([self.build / "random", 1, 1], library,
                                         self.build / "system-malloc.so", self.directory)
        self.assertEqual(problem, "")

    def test_endless_run_is_stopped(self):
        figures = self.run_job(Job(["sleep", "60"]), timeout=1)
        self.assertEqual(figures["failed"], "no end after 1 s")

    def test_wrong_output(self):
        self.assertEqual(self.run_job(Job(["echo", "four"], "five"))["failed"], "wrong output")

    def test_signal(self):
        figures = self.run_job(Job(["sh", "-c", "kill -SEGV $$"]))
        self.assertEqual(figures["failed"], "killed by signal 11")

    def test_program_that_is_not_there(self):
        self.assertEqual(self.run_job(Job(["/nowhere/program"]))["failed"], "exit code 127")


class Report(unittest.TestCase):
    def test_median_ratio_and_to_best(self):
        runs = [run_of("a", "mimalloc", w) for w in (1.0, 3.0, 2.0)]
        runs += [run_of("a", "other", w) for w in (4.0, 4.0, 4.0)]
        runs += [run_of("b", "mimalloc", 2.0), run_of("b", "other", 1.0)]
        table = report.Table(runs, "wall")
        self.assertEqual(table.cells["a"]["mimalloc"], (2.0, 1.0))
        self.assertEqual(table.ratio("a", "other", "mimalloc"), 2.0)
        summary = table.summary()
        self.assertAlmostEqual(summary["other"]["to_ours"], 1.0)
        self.assertAlmostEqual(summary["other"]["to_best_mean"], 2.0 ** 0.5)
        self.assertEqual(summary["mimalloc"]["to_best_worst"], 2.0)

    def test_one_failed_round_spoils_the_cell(self):
        runs = [run_of("a", "mimalloc", 1.0), run_of("a", "mimalloc", 1.0, failed="exit code 1"),
                run_of("a", "other", 2.0)]
        table = report.Table(runs, "wall")
        self.assertIsNone(table.cells["a"]["mimalloc"])
        self.assertIn("failed", report.format_table(table))
        self.assertEqual(report.failures(runs), ["a under mimalloc: exit code 1"])


class Peers(unittest.TestCase):
    def test_without_cargo(self):
        said = io.StringIO()
        with mock.patch("shutil.which", return_value=None), contextlib.redirect_stderr(said):
            absent = allocators.build_new(list(allocators.NEW))
        self.assertEqual(absent, list(allocators.NEW))
        self.assertIn("there is no cargo", said.getvalue())

    def test_one_that_cannot_be_built(self):
        said = io.StringIO()
        with mock.patch("peers.build_all", return_value={"snmalloc": "no", "rpmalloc": None}), \
             mock.patch("shutil.which", return_value="cargo"), contextlib.redirect_stderr(said):
            absent = allocators.build_new(["snmalloc-new", "rpmalloc-new"])
        self.assertEqual(absent, ["snmalloc-new"])
        self.assertIn("without snmalloc-new: no", said.getvalue())

    def test_unknown_name(self):
        with self.assertRaises(SystemExit):
            allocators.choose(["nobody"], "", [])


class Counting(unittest.TestCase):
    PROFILE = "\n".join([
        "positions: line", "events: Ir", "ob=(1) /x/pairs", "fn=(1) loop", "10 100",
        "cob=(2) /l.so", "cfn=(2) malloc", "calls=5 20", "10 70", "ob=(2)", "fn=(2)", "20 40", "+1 30",
        "ob=(1)", "fn=(3) main", "30 7"])

    def test_only_other_objects_count(self):
        self.assertEqual(instructions.outside_program(self.PROFILE, "pairs"), 70)
        self.assertEqual(instructions.outside_program(self.PROFILE, "l.so"), 107)


class Suite(unittest.TestCase):
    def test_names_are_unique_and_scale(self):
        names = [p.name for p in suite.PROGRAMS + suite.DRAWN]
        self.assertEqual(len(names), len(set(names)))
        for program in suite.WORK + suite.STRESS + suite.DRAWN:
            full = program.job(Path("/b"), None, 1).command[1:]
            self.assertEqual(full, list(program.arguments))
            less = program.job(Path("/b"), None, 0.5).command[1:]
            self.assertEqual([i for i in range(len(full)) if full[i] != less[i]], [program.work])


if __name__ == "__main__":
    unittest.main()
