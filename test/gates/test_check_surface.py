#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows that check_surface.py sees what it is there for: headers and tests with one fault each."""

import unittest

import check_surface

HEADER = """
#define mi_decl_export
// mi_decl_export void mi_in_comment(void);
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_one(size_t size) mi_attr_noexcept
  mi_attr_malloc mi_attr_alloc_size(1);
mi_decl_export bool mi_two(
#if MI_API_VERSION < 3
  const
#endif
  mi_heap_t* heap);
static inline void mi_three(void) {}
typedef bool(mi_cdecl mi_fun)(void* arg);
"""


class Surface(unittest.TestCase):
    def setUp(self):
        self.names = check_surface.declared([HEADER])

    def test_the_declared_functions(self):
        self.assertEqual(self.names, {"mi_one", "mi_two"})

    def faults(self, found, *texts):
        table = check_surface.users(self.names, [(str(i), t) for i, t in enumerate(texts)])
        return list(check_surface.empty_fields(table, found))

    def test_a_full_table(self):
        self.assertEqual(self.faults(self.names, "mi_one(1);", "f = &mi_two;"), [])

    def test_comments_and_strings_are_no_uses(self):
        text = "// mi_one\nx = \"mi_one\"; /* mi_one */ mi_two();"
        self.assertEqual(self.faults(self.names, text), ["mi_one: no test uses it"])

    def test_a_longer_name_is_another(self):
        self.assertEqual(self.faults(self.names, "mi_one_more(); mi_two();"),
                         ["mi_one: no test uses it"])

    def test_not_exported(self):
        self.assertEqual(self.faults({"mi_one"}, "mi_one(); mi_two();"),
                         ["mi_two: declared, but not exported"])

    def test_not_declared(self):
        self.assertEqual(self.faults(self.names | {"mi_four", "malloc"}, "mi_one(); mi_two();"),
                         ["mi_four: exported, but no header declares it"])

    def test_the_real_table_is_no_smaller_than_the_list(self):
        names = check_surface.declared((check_surface.ROOT / h).read_text()
                                       for h in check_surface.HEADERS)
        listed = set((check_surface.ROOT / check_surface.LISTED).read_text().split())
        self.assertEqual(names, listed)


if __name__ == "__main__":
    unittest.main()
