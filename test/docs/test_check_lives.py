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
2. `mx_alloc_slow` (`src/alloc/slow.c`): then.
"""
TRACE = {"one": ["mi_malloc", "mx_alloc_in", "mx_take", "mx_alloc_slow"]}


class Lives(unittest.TestCase):
    def complaints(self, text, traces=None):
        return list(check_lives.check_lives(text, traces or TRACE))

    def test_as_told(self):
        self.assertEqual(self.complaints(TOLD), [])

    def test_order(self):
        trace = {"one": ["mx_alloc_slow", "mx_alloc_in"]}
        self.assertEqual(len(self.complaints(TOLD, trace)), 1)

    def test_not_entered(self):
        self.assertEqual(len(self.complaints(TOLD, {"one": ["mx_alloc_in"]})), 1)

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
        text = "life one\n10\n20\nlife two\n30\n"
        traces = check_lives.traces_of(text, {0x10: "a", 0x20: "b"})
        self.assertEqual(traces, {"one": ["a", "b"], "two": ["30"]})

    def test_paths(self):
        with tempfile.TemporaryDirectory() as folder:
            document = pathlib.Path(folder) / "a.md"
            document.write_text("`src/alloc/fast.h` is there, `src/alloc/none.c` is not\n")
            self.assertEqual(len(list(check_lives.check_paths(document))), 1)


if __name__ == "__main__":
    unittest.main()
