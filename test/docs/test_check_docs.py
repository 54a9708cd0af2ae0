#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows that check_docs.py sees what it is there for: documents with one fault each."""

import pathlib
import tempfile
import types
import unittest

import check_docs

HEADER = """
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_one(size_t size, char* buf)
  mi_attr_noexcept mi_attr_alloc_size(1);
mi_decl_export bool mi_two(
#if MI_API_VERSION < 3
  const
#endif
  mi_heap_t* heap, bool visit_blocks);
"""
PAGE = """.BI "void *mi_one(size_t " size ","
.BI "    char *" buf ");"
.BI "bool mi_two(mi_heap_t *" heap ", bool " visit_blocks ");"
"""


class Docs(unittest.TestCase):
    def test_prototypes(self):
        self.assertEqual(check_docs.declared(HEADER), check_docs.described(PAGE))

    def test_a_prototype_that_differs(self):
        other = PAGE.replace("size_t", "int")
        self.assertNotEqual(check_docs.declared(HEADER), check_docs.described(other))

    def test_samples_of_a_document(self):
        text = "text\n```c\nint a;\n```\nmore\n```\n> command\n```\n"
        self.assertEqual(list(check_docs.samples(pathlib.Path("a.md"), text)),
                         [("c", "int a;\n"), ("", "> command\n")])

    def test_samples_of_a_page(self):
        text = ".EX\n#include <a.h>\nx \\- 1;\n.EE\n.EX\nls \\-l\n.EE\n"
        self.assertEqual(list(check_docs.samples(pathlib.Path("a.3"), text)),
                         [("c", "#include <a.h>\nx - 1;\n"), ("", "ls -l\n")])

    def test_variables(self):
        known = check_docs.options("mi_option_purge_delay, mi_option_show_stats")
        self.assertEqual(check_docs.unknown_variables("MIMALLOC_PURGE_DELAY=1 "
                                                      "`SHOW_STATS=1`", known), set())
        self.assertEqual(check_docs.unknown_variables("MIMALLOC_PURGE_DELY=1", known),
                         {"PURGE_DELY"})
        self.assertEqual(check_docs.unknown_variables("`SHOW_STATS=1 SHOW_STAT=2`", known),
                         {"SHOW_STAT"})

    def sample(self, text):
        with tempfile.TemporaryDirectory() as folder:
            opts = types.SimpleNamespace(work=pathlib.Path(folder), archive="/dev/null")
            check_docs.compile_sample("c", text, "sample", opts)

    def test_a_sample_without_main_is_compiled(self):
        self.sample("#include <mimalloc.h>\nvoid f(void);\nvoid f(void) { mi_free(NULL); }\n")

    def test_a_sample_with_a_warning(self):
        with self.assertRaises(RuntimeError):
            self.sample("#include <mimalloc.h>\nvoid f(void);\nvoid f(void) { mi_malloc(1); }\n")

    def test_a_program_that_fails(self):
        with self.assertRaises(RuntimeError):
            self.sample("int main(void) { return 1; }\n")


if __name__ == "__main__":
    unittest.main()
