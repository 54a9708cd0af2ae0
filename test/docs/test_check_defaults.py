#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows that check_defaults.py sees what it is there for: documents with one wrong default each."""

import unittest

import check_defaults

# Sentences, each with the default of purge_delay.
PROSE = ("`purge_delay` (1 s) passes", "after `purge_delay`\n(1000 ms)", "`purge_delay` (1,000)",
         "`purge_delay`: 0 at once, and the default of 1000 later", "**Taken: `purge_delay=1000`**",
         "the default of `purge_delay` is 1000", "`MIMALLOC_PURGE_DELAY` is by default 1 s",
         "`purge_delay` has a default of 1,000 ms", "`purge_delay` (default 1000)",
         "`mi_option_purge_delay` is 1000 by default", "`purge_delay=1000`, the default, and",
         "`MIMALLOC_PURGE_DELAY=1000` (the default)", "`purge_delay` (1000 by default)")
OTHER_TABLE = """| variable | what | default |
| --- | --- | --- |
| `MIMALLOC_PURGE_DELAY` | how long | 1 s |
"""
CODE = {"purge_delay": 1000, "arena_reserve": 1048576, "guarded_min": 0, "guarded_max": 1 << 30,
        "abort_on_error": -1}
TABLE = """| option | default | meaning |
| --- | --- | --- |
| `purge_delay` | 1000 ms | how long |
| `arena_reserve` | 1 GiB (128 MiB on 32 bits) | how much |
| `guarded_min`, `guarded_max` | 0, 1 GiB | which |
| `abort_on_error` | -1 | whether |
"""
MAN = (".B purge_delay \\fR(1000)\nmore\n.B abort_on_error \\fR(\\-1)\n"
       '.BR guarded_min " (0), " guarded_max " (1GiB)"\n')
HEADER = "  mi_option_purge_delay,   ///< keep for so many ms; -1 ever (1000)\n"


def complaints(said):
    return list(check_defaults.compare("here", said, CODE))


class Defaults(unittest.TestCase):
    def test_right(self):
        table = list(check_defaults.table_defaults(TABLE))
        self.assertEqual(len(table), 5)
        self.assertEqual(complaints(table), [])
        self.assertEqual(check_defaults.unnamed("here", table, CODE), [])

    def test_wrong_in_table(self):
        for right, wrong in (("1000 ms", "100 ms"), ("1 GiB (", "2 GiB ("), ("0, 1 GiB", "0, 1 MiB"),
                             ("-1", "1")):
            said = check_defaults.table_defaults(TABLE.replace(right, wrong))
            self.assertEqual(len(complaints(said)), 1, wrong)

    def test_missing(self):
        said = list(check_defaults.table_defaults(TABLE.replace("| `abort_on_error`", "| abort")))
        self.assertEqual(len(check_defaults.unnamed("here", said, CODE)), 1)

    def test_man(self):
        said = list(check_defaults.man_defaults(MAN))
        self.assertEqual((len(said), complaints(said)), (4, []))
        for right, wrong in (("1)", "2)"), ("1000", "9"), ("(0)", "(1)"), ("1GiB", "1MiB")):
            said = check_defaults.man_defaults(MAN.replace(right, wrong))
            self.assertEqual(len(complaints(said)), 1, wrong)

    def test_header(self):
        said = check_defaults.HEADER.findall(HEADER)
        self.assertEqual((len(said), complaints(said)), (1, []))
        self.assertEqual(len(complaints(check_defaults.HEADER.findall(
            HEADER.replace("(1000)", "(10)")))), 1)

    def test_prose(self):
        for text in PROSE:
            said = list(check_defaults.prose_defaults(text))
            self.assertEqual((len(said), complaints(said)), (1, []), text)
            for right, wrong in (("1000", "10"), ("1,000", "100"), ("1 s", "2 s")):
                if right in text:
                    said = check_defaults.prose_defaults(text.replace(right, wrong))
                    self.assertEqual(len(complaints(said)), 1, text)

    def test_no_default(self):
        for text in ("`purge_delay` (0 to 5)", "`purge_delay=5` keeps", "`other` (7)",
                     "`purge_delay`. With a default of 5"):
            self.assertEqual(complaints(check_defaults.prose_defaults(text)), [], text)

    def test_other_table(self):
        said = list(check_defaults.column_defaults(OTHER_TABLE))
        self.assertEqual((len(said), complaints(said)), (1, []))
        said = check_defaults.column_defaults(OTHER_TABLE.replace("1 s", "10 ms"))
        self.assertEqual(len(complaints(said)), 1)


if __name__ == "__main__":
    unittest.main()
