#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows that check_atomics.py sees declarations of every shape, and what a document lacks."""

import unittest

import check_atomics

SOURCE = """
static mx_atomic(int) one;
extern mx_hidden mx_atomic(mx_fn*) two;
  mx_atomic(heap_t*) three;  // a comment
  mx_atomic(uint32_t)* four;
static mx_atomic(uint64_t) five = 7;
  mx_atomic(uintptr_t) six[CHUNK];
static mx_atomic(uint64_t) seven, eight;
  mx_bits_t* nine;
static bool f(mx_atomic(long)* parameter, long limit) {
static bool is_time(mx_atomic(uint64_t)* at, uint64_t pause) {
  mx_atomic(int)* const local = &one;
"""


class Atomics(unittest.TestCase):
    def test_shapes(self):
        self.assertEqual(check_atomics.declared(SOURCE), {
            "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"})

    def test_only_tables_count(self):
        text = "In text `one`.\n| `page->two`, `three[]` | relaxed | four |\n"
        self.assertEqual(check_atomics.named(text), {"page", "two", "three"})


if __name__ == "__main__":
    unittest.main()
