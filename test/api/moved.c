// SPDX-License-Identifier: MIT
// Tests that zeroed memory is zero, whatever happened to the place before: blocks that grew by
// moving page tables leave places behind that other blocks use next.
#include "expect.h"

#define MIB ((size_t)1 << 20)

// Grows a block that another lies behind, and uses the place where it was.
static void test_place_left(size_t size, size_t by) {
  unsigned char* p = (unsigned char*)mi_malloc(size);
  void* const behind = mi_malloc(MIB);
  memset(p, 1, size);
  p = (unsigned char*)mi_realloc(p, size + by);
  EXPECT(p != NULL && p[0] == 1 && p[size - 1] == 1);
  unsigned char* const next = (unsigned char*)mi_malloc(size);
  memset(next, 2, size);
  mi_free(next);
  mi_collect(true);
  unsigned char* zeroed[8];
  for (int i = 0; i < 8; i++) {
    zeroed[i] = (unsigned char*)mi_calloc(1, size);
    EXPECT_AT(i, zeroed[i] != NULL && is_zero(zeroed[i], size));
  }
  for (int i = 0; i < 8; i++) mi_free(zeroed[i]);
  mi_free(behind);
  mi_free(p);
}

int main(void) {
  expect_errors();
  for (size_t size = MIB; size <= 16 * MIB; size *= 2) {
    test_place_left(size, 8);
    test_place_left(size - 100, MIB);
    test_place_left(size, 3 * size);
  }
  return expect_end("moved");
}
