#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows that check_lives.py sees what it is there for: lives and paths with one fault each."""

import pathlib
import tempfile
import unittest

import check_lives

TOLD = """<!-- life one -->
1. `mx_alloc_in` (`src/alloc/fast.h`): first,
   and more of it;
2. `mx_alloc_slow` (`src/alloc/slow.c`): then, by `mx_alloc_small_slow`.
"""
ON_THE_WAY = "mx_alloc_small_slow"
TRACE = {"one": [("mi_malloc", []), ("mx_alloc_in", ["mi_malloc"]),
                 ("mx_take", ["mi_malloc", "mx_alloc_in"]),
                 (ON_THE_WAY, ["mi_malloc", "mx_alloc_in"]),
                 ("mx_alloc_slow", ["mi_malloc", "mx_alloc_in", ON_THE_WAY])]}


class Lives(unittest.TestCase):
    def complaints(self, text, traces=None):
        return list(check_lives.check_lives(text, traces or TRACE))

    def test_as_told(self):
        self.assertEqual(self.complaints(TOLD), [])

    def test_order(self):
        trace = {"one": [("mx_alloc_slow", []), ("mx_alloc_in", [])]}
        self.assertEqual(len(self.complaints(TOLD, trace)), 1)

    def test_not_entered(self):
        self.assertEqual(len(self.complaints(TOLD, {"one": [("mx_alloc_in", [])]})), 1)

    def test_caller_left_out(self):
        self.assertEqual(self.complaints(TOLD.replace(f", by `{ON_THE_WAY}`", "")),
                         [f"one: mx_alloc_slow is entered by {ON_THE_WAY}, which is left out"])

    def test_caller_as_a_step_or_said_before(self):
        step = f"2. `{ON_THE_WAY}` (`src/alloc/slow.c`): then\n3. `mx_alloc_slow`"
        self.assertEqual(self.complaints(TOLD.replace("2. `mx_alloc_slow`", step)), [])
        before = TOLD.replace(f", by `{ON_THE_WAY}`", "").replace("more of it", f"`{ON_THE_WAY}`")
        self.assertEqual(self.complaints(before), [])

    def test_wrong_file(self):
        self.assertEqual(len(self.complaints(TOLD.replace("fast.h", "free.c"))), 1)

    def test_a_use_is_no_definition(self):
        self.assertEqual(len(self.complaints(TOLD.replace("slow.c", "realloc.c"))), 1)

    def test_life_that_is_not_told(self):
        traces = dict(TRACE, two=["mi_free"])
        self.assertEqual(len(self.complaints(TOLD, traces)), 1)

    def test_step_without_file(self):
        with self.assertRaises(ValueError):
            self.complaints(TOLD + "3. `mx_free`: a file is missing.\n")

    def test_traces(self):
        text = "life one\n10 0\n20 1\n10 2\n20 1\nlife two\n30 0\n"
        traces = check_lives.traces_of(text, {0x10: "a", 0x20: "b"})
        self.assertEqual(traces, {"one": [("a", []), ("b", ["a"]), ("a", ["a", "b"]),
                                          ("b", ["a"])], "two": [("30", [])]})

    def test_floors(self):
        architecture = (check_lives.SOURCE / "docs" / "architecture.md").read_text()
        self.assertEqual(list(check_lives.check_floors(architecture)), [])
        without = architecture.replace("| `profile` |", "| `porfile` |")
        self.assertEqual(list(check_lives.check_floors(without)),
                         ["floors: porfile is only told", "floors: profile is left out"])

    def test_paths(self):
        with tempfile.TemporaryDirectory() as folder:
            document = pathlib.Path(folder) / "a.md"
            document.write_text("`src/alloc/fast.h` is there, `src/alloc/none.c` is not\n")
            self.assertEqual(len(list(check_lives.check_paths(document))), 1)


if __name__ == "__main__":
    unittest.main()
