#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows that check_symbols.py sees what it is there for: small libraries with one fault each."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import check_symbols


class Symbols(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="symbols-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        # The operators are functions like any other to the linker.
        self.wanted = check_symbols.expected(True, 64)

    def build(self, names, *flags, soname="libx.so.3", extra=""):
        source = self.folder / "x.c"
        source.write_text(extra + "".join(f"void {name}(void) {{}}\n" for name in sorted(names)))
        path = self.folder / "libx.so.3.5"
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-fno-builtin", "-w", "-o",
                        str(path), str(source), f"-Wl,-soname,{soname}", *flags], check=True)
        return path

    def violations(self, path, max_text=None):
        return list(check_symbols.check_shared(path, self.wanted, max_text))

    def test_the_lists_name_what_they_must(self):
        self.assertIn("mi_malloc", self.wanted)
        self.assertIn("_ZnwmSt11align_val_t", self.wanted)
        self.assertNotIn("malloc", check_symbols.expected(False, 64))
        self.assertIn("_Znwj", check_symbols.expected(True, 32))
        self.assertNotIn("_ZdlPvm", check_symbols.expected(True, 32))

    def test_a_sound_library(self):
        self.assertEqual(self.violations(self.build(self.wanted)), [])

    def test_a_missing_symbol(self):
        path = self.build(self.wanted - {"mi_realloc"})
        self.assertEqual(self.violations(path), [f"{path.name}: does not export mi_realloc"])

    def test_a_symbol_too_many(self):
        path = self.build(self.wanted | {"mx_inner"})
        self.assertEqual(self.violations(path),
                         [f"{path.name}: exports mx_inner, which is not public"])

    def test_another_library_needed(self):
        path = self.build(self.wanted, "-Wl,--no-as-needed", "-lm")
        found = self.violations(path)
        self.assertEqual(len(found), 1, found)
        self.assertIn("needs libm.so", found[0])

    def test_another_name(self):
        path = self.build(self.wanted, soname="libx.so.2")
        self.assertEqual(self.violations(path), [f"{path.name}: bears the name libx.so.2"])

    def test_too_much_text(self):
        path = self.build(self.wanted, extra="const char filler[200000] = {1};\nextern const char "
                          "filler[] __attribute__((visibility(\"hidden\")));\n")
        found = [line for line in self.violations(path, 200000) if "bytes of text" in line]
        self.assertEqual(len(found), 1)
        self.assertEqual([line for line in self.violations(path, 400000) if "bytes" in line], [])

    def test_a_part_has_a_bound_of_its_own(self):
        (self.folder / "parts").mkdir()
        source, part = self.folder / "z.c", self.folder / "parts" / "z.c.o"
        source.write_text("const char table[5000] = {1};\n")
        subprocess.run([os.environ.get("CC", "cc"), "-c", "-o", str(part), str(source)], check=True)
        found, total = check_symbols.check_parts(self.folder, ["z=parts/z=6000"])
        self.assertEqual((found, total >= 5000), ([], True))
        self.assertIn("more than 4000", check_symbols.check_parts(self.folder, ["z=parts/z=4000"])[0][0])
        self.assertIn("no object", check_symbols.check_parts(self.folder, ["z=parts/y=6000"])[0][0])
        path = self.build(self.wanted, extra="const char filler[200000] = {1};\nextern const char "
                          "filler[] __attribute__((visibility(\"hidden\")));\n")
        self.assertEqual(list(check_symbols.check_shared(path, self.wanted, 200000, apart=200000)), [])

    def test_the_archive_defines_only_names_of_its_own(self):
        source, archive = self.folder / "y.c", self.folder / "liby.a"
        source.write_text("void mi_free(void) {}\nvoid mx_a(void) {}\nvoid helper(void) {}\n")
        subprocess.run([os.environ.get("CC", "cc"), "-c", "-o", str(self.folder / "y.o"),
                        str(source)], check=True)
        subprocess.run(["ar", "rc", str(archive), str(self.folder / "y.o")], check=True)
        self.assertEqual(list(check_symbols.check_static(archive, self.wanted)),
                         ["liby.a: defines helper, which is not public"])


if __name__ == "__main__":
    unittest.main()
