// SPDX-License-Identifier: MIT
// Where a block begins, found by a multiplication, is where a division finds it: for every block
// size and every offset up to the end of its page, and far away ones. Whole products of words are
// what long multiplication makes of them.
#include <stdio.h>

#include "../../src/heap/heap.h"
#include "../../src/mem/random.h"

#define FAR 20000

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static uint8_t* const start = (uint8_t*)(uintptr_t)0x10000000;

static void check(const mx_page_t* page, size_t offset) {
  const size_t size = page->block_size;
  const bool is_right = (offset % size == 0 && offset / size < page->reserved);
  const uint8_t* const p = (const uint8_t*)((uintptr_t)start + offset);
  if (mx_page_could_be_block(page, p) == is_right) return;
  if (failures++ < 10) printf("FAIL block size %zu, offset %zu\n", size, offset);
}

static void check_bin(size_t bin) {
  const size_t size = mx_bin_size(bin), slices = mx_page_slices_for(size);
  static mx_arena_t arena;
  const mx_slices_t got = {&arena, 0, slices, start, true};
  mx_page_t page;
  mx_page_init(&page, &got, size, bin, NULL);
  page.start = start;
  for (size_t offset = 0; offset < slices * MX_SLICE_SIZE + 2 * size; offset++) {
    check(&page, offset);
    if (offset >= slices * MX_SLICE_SIZE) continue;
    const uint8_t* const p = (const uint8_t*)((uintptr_t)start + offset);
    EXPECT(mx_page_begins_block(&page, p) == mx_page_could_be_block(&page, p));
  }
  for (int i = 0; i < FAR; i++) {
    const uint64_t offset = mx_random64() >> (i % 48);
    if (offset < slices * MX_SLICE_SIZE) continue;
    check(&page, (size_t)offset);
    check(&page, (size_t)(offset - offset % size));
    check(&page, (size_t)(0 - offset));
    // As an address in the page with bits that no address has.
    check(&page, (size_t)(((uint64_t)(i % 65535 + 1) << 48) + (uint64_t)i % page.reserved * size));
  }
}

static void check_product(uint64_t a, uint64_t b) {
  const uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
  const uint64_t m = (a0 * b0 >> 32) + (uint32_t)(a0 * b1) + (uint32_t)(a1 * b0);
  const uint64_t high = a1 * b1 + (a0 * b1 >> 32) + (a1 * b0 >> 32) + (m >> 32);
  uint64_t got;
  EXPECT(mx_mul_wide(a, b, &got) == a * b);
  EXPECT(got == high);
}

int main(void) {
  // The others divide.
  for (size_t bin = 1; MX_RECIPROCALS && bin < MX_BIN_HUGE; bin++) check_bin(bin);
  check_product(UINT64_MAX, UINT64_MAX);
  for (int i = 0; i < FAR; i++) check_product(mx_random64() >> (i % 64), mx_random64());
  // Nothing begins in the record that stands for no page, nor, as a block of many, in a huge one.
  if (MX_RECIPROCALS) EXPECT(!mx_page_begins_block(&mx_page_none, NULL));
  const mx_slices_t got = {NULL, 0, 20, start, true};
  mx_page_t huge;
  mx_page_init(&huge, &got, 20 * MX_SLICE_SIZE, MX_BIN_HUGE, NULL);
  if (MX_RECIPROCALS) EXPECT(!mx_page_begins_block(&huge, start));
  EXPECT(mx_page_could_be_block(&huge, start) && !mx_page_could_be_block(&huge, start + 16));
  // What requests get: a block of a bin, whole OS pages, or (too large ones) nothing.
  EXPECT(mx_good_size(1, 4096) == 16 && mx_good_size(17, 4096) == 32);
  EXPECT(mx_good_size(MX_BIN_MAX_SIZE, 4096) == MX_BIN_MAX_SIZE);
  EXPECT(mx_good_size(MX_BIN_MAX_SIZE + 1, 4096) == MX_BIN_MAX_SIZE + 4096);
  printf("reciprocal: %d failures\n", failures);
  return failures != 0;
}
