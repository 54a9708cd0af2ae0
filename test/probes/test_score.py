#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the scorer against allocators whose behaviour is known (shim.c).

Every outcome and every way for the gate to fail is produced on purpose, so that a scorer that
counts everything as caught, or a gate that cannot fail, fails here.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BASIC_DOUBLE_FREES = 15


class Scorer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="score-test-")
        cls.folder = pathlib.Path(cls.scratch.name)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def shim(self, behaviour):
        path = self.folder / f"shim-{behaviour.lower()}.so"
        if not path.exists():
            subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", "-shared",
                            "-fPIC", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-Werror",
                            f"-DSHIM={behaviour}", "-o", str(path), str(HERE / "shim.c")],
                           check=True)
        return path

    def score(self, library, *arguments):
        """Scores the basic double frees; returns the exit status and the JSON of the library."""
        out = self.folder / "out.json"
        command = [sys.executable, str(HERE / "score.py"), "--only", "--lib", f"it={library}",
                   "--set", "basic", "--kind", "double-free", "--json", str(out), *arguments]
        status = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return status.returncode, json.loads(out.read_text())["libraries"]["it"]

    def outcomes(self, result):
        return collections.Counter(r["outcome"] for r in result["cases"].values())

    def false_alarms(self, result):
        return sum(r["false_alarm"] for r in result["cases"].values())

    def test_blind_allocator_misses_and_fails_the_gate(self):
        status, result = self.score(self.shim("BLIND"), "--min-caught", "1")
        self.assertEqual(self.outcomes(result), {"missed": BASIC_DOUBLE_FREES})
        self.assertEqual(self.false_alarms(result), 0)
        self.assertEqual(status, 1)

    def test_watchful_allocator_catches_and_passes_exactly_at_its_score(self):
        status, result = self.score(self.shim("WATCHFUL"), "--min-caught", "15")
        self.assertEqual(self.outcomes(result), {"caught": BASIC_DOUBLE_FREES})
        self.assertTrue(all(r["report"] and r["how"] == "SIGABRT"
                            for r in result["cases"].values()))
        self.assertEqual(status, 0)
        status, _ = self.score(self.shim("WATCHFUL"), "--min-caught", "16")
        self.assertEqual(status, 1)

    def test_a_report_without_a_stop_is_no_catch(self):
        status, result = self.score(self.shim("LENIENT"), "--min-caught", "1")
        self.assertEqual(self.outcomes(result), {"reported": BASIC_DOUBLE_FREES})
        self.assertEqual(self.false_alarms(result), 0)
        self.assertEqual(status, 1)

    def test_a_hang_is_no_catch(self):
        status, result = self.score(self.shim("STUCK"), "--min-caught", "1", "--timeout", "0.5")
        self.assertEqual(self.outcomes(result), {"hang": BASIC_DOUBLE_FREES})
        self.assertEqual(status, 1)

    def test_false_alarms_fail_the_gate(self):
        status, result = self.score(self.shim("NERVOUS"), "--min-caught", "0")
        self.assertEqual(self.false_alarms(result), BASIC_DOUBLE_FREES)
        self.assertEqual(status, 1)

    def test_an_allocator_that_stops_honest_programs_is_not_scored(self):
        status, result = self.score(self.shim("DEADLY"), "--min-caught", "0")
        self.assertIn("honest program", result["problem"])
        self.assertEqual(status, 2)

    def test_a_library_that_is_not_loaded_is_not_scored(self):
        status, result = self.score(self.folder / "absent.so", "--min-caught", "0")
        self.assertIn("malloc came from", result["problem"])
        self.assertEqual(status, 2)

    def test_the_table_of_contents_is_current(self):
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(HERE / "score.py")], check=True)
        command = [sys.executable, str(HERE / "score.py"), "--check-contents"]
        self.assertEqual(subprocess.run(command).returncode, 0)


if __name__ == "__main__":
    unittest.main()
