#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the runners of the twins and of the starts on allocators whose behaviour is known (shim.c)."""

import argparse
import collections
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import score
import starts
import twins

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = HERE.parent.parent / "docs" / "hardening.md"


class Ends(unittest.TestCase):
    """How a run ended, from its status and what it printed."""

    def test_each_way_to_end(self):
        for outcome, status, out, err in [
                ("at once", -11, "ready\n", ""), ("at once", 1, "ready\n", "free: bad pointer"),
                ("later", -6, "ready\ndone\n", "corrupt"), ("later", -6, "ready\ndone\nafter free\n", ""),
                ("later", -6, "ready\ndone\nend\n", ""), ("later", 0, "ready\ndone\n", ""),
                ("nothing", 0, "ready\ngone no\nend\n", ""), ("missed", 0, "ready\ndone\nend\n", ""),
                ("told", 0, "ready\ndone\nend\n", "free: bad pointer"),
                ("hang", None, "ready\n", ""), ("broken", 77, "broken\n", ""), ("broken", -11, "", "")]:
            self.assertEqual(twins.ended(status, out, err), outcome, (status, out, err))

    def test_what_is_stopped_by_chance_is_not_stopped(self):
        for outcomes, share in [(["at once", "later", "nothing"], "all"), (["at once", "missed"], "some"),
                                (["told", "hang", "missed", "broken"], "none")]:
            self.assertEqual(twins.stopped(collections.Counter(outcomes)), share)


class Libraries(unittest.TestCase):
    def test_the_allocator_of_a_build_is_found_beside_other_libraries(self):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            (build / "libmimalloc-trace-record.so").touch()
            self.assertIsNone(twins.score.our_library(build))
            for name in "libmimalloc-secure.so", "libmimalloc.so":
                (build / name).touch()
                self.assertEqual(twins.score.our_library(build), build / name)


class Runner(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="twins-test-")
        cls.folder = pathlib.Path(cls.scratch.name)
        cases, _ = twins.read_set(cls.folder, 2, ("pointers.c",))
        cls.cases = [c for c in cases if c.name == "double-0"]
        cls.control = score.compile_all([], cls.folder, 2)["control"]

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def shim(self, behaviour):
        path = self.folder / f"shim-{behaviour}.so"
        if not path.exists():
            subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC",
                            "-O1", "-fno-builtin", f"-DSHIM={behaviour}", "-o", str(path),
                            str(HERE / "shim.c")], check=True)
        return score.Library(behaviour, path)

    def run_it(self, behaviour, at_least=None):
        """The outcomes, and the status of the gate."""
        options = argparse.Namespace(repeat=1, jobs=2, only=True, at_least=at_least,
                                     timeout=2 if behaviour == "STUCK" else 30)
        result, problem = twins.run_library(self.shim(behaviour), self.cases, options, self.control)
        if problem:
            return None, problem
        with contextlib.redirect_stdout(io.StringIO()):
            status = twins.gate({behaviour: result}, self.cases, options)
        return {o for counts, _ in result.values() for o in counts}, status

    def test_a_blind_allocator_misses_and_fails_the_gate(self):
        self.assertEqual(self.run_it("BLIND", 1), ({"missed"}, 1))

    def test_a_watchful_allocator_stops_at_once_and_passes_exactly_at_its_count(self):
        self.assertEqual(self.run_it("WATCHFUL", len(self.cases)), ({"at once"}, 0))
        self.assertEqual(self.run_it("WATCHFUL", len(self.cases) + 1), ({"at once"}, 1))

    def test_a_message_alone_is_no_stop(self):
        self.assertEqual(self.run_it("LENIENT", 1), ({"told"}, 1))

    def test_a_hang_is_no_stop(self):
        self.assertEqual(self.run_it("STUCK", 1), ({"hang"}, 1))

    def test_a_false_alarm_fails_the_gate(self):
        self.assertEqual(self.run_it("NERVOUS")[1], 1)

    def test_an_allocator_that_stops_honest_programs_is_not_run(self):
        self.assertIn("honest program", self.run_it("DEADLY")[1])

    def test_a_row_that_the_document_lacks_or_miscounts_is_found(self):
        with tempfile.TemporaryDirectory(prefix="twins-table-") as name:
            cases, missing = twins.read_set(pathlib.Path(name), 2)
            row = cases[0].row
            text = DOCUMENT.read_text()
            copy = pathlib.Path(name) / "copy.md"
            count = sum(c.row == row for c in cases)
            for old, new in [(f"| {row} |", "| something else |"),
                             (f"| {row} | {count} |", f"| {row} | {count + 1} |")]:
                self.assertIn(old, text)
                copy.write_text(text.replace(old, new))
                with contextlib.redirect_stdout(io.StringIO()):
                    self.assertEqual(twins.check_table(copy, cases, missing), 1)

    def test_starts_that_are_reported_or_stopped_are_found(self):
        command = [sys.executable, str(HERE / "starts.py"), "--starts", "12", "--lib"]
        for behaviour, status in [("BLIND", 0), ("NERVOUS", 1), ("DEADLY", 1)]:
            done = subprocess.run([*command, f"it={self.shim(behaviour).path}"], capture_output=True)
            if done.returncode != 77:
                self.assertEqual(done.returncode, status, done.stdout)

    def test_a_library_that_is_not_loaded_is_no_success(self):
        self.assertFalse(starts.is_loaded(score.Library("it", self.folder / "absent.so")))


if __name__ == "__main__":
    unittest.main()
