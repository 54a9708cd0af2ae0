#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows that check_floors.py sees what it is there for.

Each test plants one fault in a small sound tree, compiles it, and expects that very violation and
no other. CC names the compiler, NM the nm.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

import check_floors

LICENCE = "// SPDX-License-Identifier: MIT\n"
SOUND = {
    "src/base/bits.h": "int mx_bits(int x);\n",
    "src/base/bits.c": '#include "bits.h"\nint mx_bits(int x) {\n  return x;\n}\n',
    "src/page/page.h": '#ifndef P\n#define P\n#include "../base/bits.h"\nint mx_page(void);\n#endif\n',
    "src/page/page.c": '#include "page.h"\nint mx_page(void) { return mx_bits(1); }\n',
    "src/page/list.c": '#include "page.h"\nint mx_list(void) { return mx_bits(2); }\n',
    "src/api/api.c": '#include "../page/page.h"\nint mi_api(void) { return mx_page(); }\n',
}
NAMES = ["base/bits.c", "page/list.c", "page/page.c", "api/api.c"]


class Floors(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="floors-")
        self.addCleanup(scratch.cleanup)
        self.top = pathlib.Path(scratch.name).resolve()
        for name, text in SOUND.items():
            self.write(name, text)
        self.write("src/static.c", "".join(f'#include "{name}"\n' for name in NAMES))
        self.write("cmake/mimalloc-sources.cmake",
                   "set(mi_sources\n" + "".join(f"  {name}\n" for name in NAMES) + ")\n")

    def write(self, name, text):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LICENCE + text)

    def append(self, name, text):
        path = self.top / name
        path.write_text(path.read_text() + text)

    def compile(self, *names):
        for name in names:
            out = self.top / "objects" / (name + ".o")
            out.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([os.environ.get("CC", "cc"), "-c", "-o", str(out),
                            str(self.top / "src" / name)], check=True)

    def violations(self, compiled=None):
        self.compile(*(NAMES if compiled is None else compiled))
        return check_floors.check_all(self.top / "src", self.top / "objects")

    def expect(self, *words, compiled=None):
        """One violation, in which all the words occur."""
        found = self.violations(compiled)
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_a_sound_tree_has_no_violation(self):
        self.assertEqual(self.violations(), [])

    def test_an_upward_include(self):
        self.append("src/base/bits.c", '#include "../page/page.h"\n')
        self.expect("base/bits.c", "includes page/page.h", "above")

    def test_an_included_source(self):
        self.append("src/page/list.c", '#include "../base/bits.c"\n')
        found = self.violations()
        self.assertIn("page/list.c:4: includes the source bits.c", found)
        # The object file says so, too.
        self.assertIn("mx_bits: defined by base/bits.c and by page/list.c", found)

    def test_headers_in_a_circle(self):
        self.write("src/page/a.h", '#ifndef A\n#define A\n#include "b.h"\n#endif\n')
        self.write("src/page/b.h", '#ifndef B\n#define B\n#include "a.h"\n#endif\n')
        self.expect("circle", "page/a.h", "page/b.h")

    def test_parts_in_a_circle(self):
        self.write("src/page/list.h", '#ifndef L\n#define L\n#include "page.h"\n#endif\n')
        self.append("src/page/page.c", '#include "list.h"\n')
        self.expect("parts include each other", "page/list", "page/page")

    def test_an_object_that_needs_what_lies_above(self):
        self.append("src/base/bits.c", "int mi_api(void);\nint mx_up(void) { return mi_api(); }\n")
        self.expect("base/bits.c", "needs mi_api of api/api.c", "above")

    def test_objects_of_one_floor_in_a_circle(self):
        self.append("src/page/page.c", "int mx_list(void);\nint mx_p(void) { return mx_list(); }\n")
        self.append("src/page/list.c", "int mx_l(void) { return mx_page(); }\n")
        self.expect("need each other", "page/list.c", "page/page.c")

    def test_a_symbol_that_nobody_defines(self):
        self.append("src/api/api.c", "int mx_no(void);\nint mi_a(void) { return mx_no(); }\n")
        self.expect("api/api.c", "mx_no", "nobody")

    def test_a_symbol_defined_twice(self):
        self.append("src/page/list.c", "int mx_twice(void) { return 1; }\n")
        self.append("src/api/api.c", "int mx_twice(void) { return 2; }\n")
        self.expect("mx_twice", "page/list.c", "api/api.c")

    def test_a_source_without_an_object(self):
        self.expect("page/list.c", "not compiled",
                    compiled=[name for name in NAMES if name != "page/list.c"])

    def test_a_source_missing_in_the_lists(self):
        self.write("src/heap/heap.c", "int mx_heap(void) { return 3; }\n")
        found = self.violations([*NAMES, "heap/heap.c"])
        self.assertEqual(found, ["static.c: does not name heap/heap.c",
                                 "mimalloc-sources.cmake: does not name heap/heap.c"])

    def test_lists_out_of_order(self):
        self.write("src/static.c", "".join(f'#include "{name}"\n' for name in reversed(NAMES)))
        self.expect("static.c", "order of the floors")

    def test_checks(self):
        self.append("src/page/list.c", "".join(f"int mx_list{i};\n" for i in range(60)) +
                    "#define mx_check(x)\n// mx_check(1); mx_check(2); mx_check(3);\n")
        self.expect("page: 1 assertions in ", ", not 3")
        self.append("src/page/list.c", "void mx_sum(int x) {\n  mx_check(x);\n  mx_check(-x);\n}\n")
        self.assertEqual(self.violations(), [])

    def test_shape(self):
        head = LICENCE + SOUND["src/page/page.c"]
        filler = "//\n" * (601 - head.count("\n"))
        for text, words in [(filler, "601 lines"), ("//" + "x" * 99 + "\n", "101 columns"),
                            ("#if defined(A)\n#endif\n", "condition of the preprocessor"),
                            ("int mx_long(int a) {\n" + "\n" * 59 + "}\n", "function of 61 lines"),
                            ("int mx_two(int a,\n           int b) {\n" + "\n" * 58 + "}\n",
                             "function of 61 lines")]:
            with self.subTest(words):
                self.write("src/page/page.c", SOUND["src/page/page.c"] + text)
                self.expect("page/page.c", words)

    def test_the_licence_comes_first(self):
        (self.top / "src/page/page.c").write_text(SOUND["src/page/page.c"])
        self.expect("page/page.c", "licence")

    def test_conditions_are_allowed_on_the_system_floors(self):
        self.write("src/os/linux.c", "#if defined(__linux__)\n#endif\nint mx_os(void);\n")
        for name in ("src/static.c", "cmake/mimalloc-sources.cmake"):
            path = self.top / name
            entry = '#include "os/linux.c"' if name.endswith(".c") else "  os/linux.c"
            path.write_text("".join(line + "\n" + (entry + "\n" if "base/bits.c" in line else "")
                                    for line in path.read_text().splitlines()))
        self.assertEqual(self.violations([*NAMES, "os/linux.c"]), [])


if __name__ == "__main__":
    unittest.main()
