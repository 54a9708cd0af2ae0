// SPDX-License-Identifier: MIT
// The calls that fail as operator new does, in a program that has no C++: there is no handler, and
// nothing to throw, so they return NULL.
#include "expect.h"

static void test_success(void) {
  for (size_t size = 0; size < 3000000; size = size * 3 + 1) {
    void* blocks[7];
    KEEP_ERRNO(blocks[0] = mi_new(size));
    KEEP_ERRNO(blocks[1] = mi_new_nothrow(size));
    KEEP_ERRNO(blocks[2] = mi_new_n(3, size));
    KEEP_ERRNO(blocks[3] = mi_new_realloc(NULL, size));
    KEEP_ERRNO(blocks[4] = mi_new_reallocn(NULL, 2, size));
    KEEP_ERRNO(blocks[5] = mi_new_aligned(size, 256));
    KEEP_ERRNO(blocks[6] = mi_new_aligned_nothrow(size, 8192));
    static const size_t factor[7] = {1, 1, 3, 1, 2, 1, 1};
    static const size_t align[7] = {16, 16, 16, 16, 16, 256, 8192};
    for (int i = 0; i < 7; i++) {
      EXPECT_AT(i, blocks[i] != NULL && is_multiple(blocks[i], align[i]));
      EXPECT_AT(i, is_usable_for(blocks[i], size * factor[i]));
      memset(blocks[i], i, size * factor[i]);
    }
    for (int i = 0; i < 7; i++) {
      EXPECT_AT(i, is_filled(blocks[i], size * factor[i], (unsigned char)i));
      mi_free(blocks[i]);
    }
  }
}

static void test_failure(void) {
  static const size_t too_large[] = {(size_t)PTRDIFF_MAX + 1, SIZE_MAX - 4096, SIZE_MAX};
  char* const p = (char*)mi_new(100);
  strcpy(p, "kept");
  for (size_t i = 0; i < sizeof(too_large) / sizeof(too_large[0]); i++) {
    const size_t size = too_large[i];
    EXPECT_ERRNO(mi_new(size), ENOMEM);
    EXPECT_ERRNO(mi_new_nothrow(size), ENOMEM);
    EXPECT_ERRNO(mi_new_aligned(size, 64), ENOMEM);
    EXPECT_ERRNO(mi_new_aligned_nothrow(size, 64), ENOMEM);
    EXPECT_ERRNO(mi_new_n(2, size), ENOMEM);
    EXPECT_ERRNO(mi_new_n(size, 1), ENOMEM);
    EXPECT_ERRNO(mi_new_realloc(p, size), ENOMEM);
    EXPECT_ERRNO(mi_new_reallocn(p, size, 2), ENOMEM);
    EXPECT_ERRNO(mi_heap_alloc_new(mi_heap_main(), size), ENOMEM);
    EXPECT_ERRNO(mi_heap_alloc_new_n(mi_heap_main(), size, 2), ENOMEM);
  }
  EXPECT(strcmp(p, "kept") == 0);
  mi_free(p);
  static const size_t wrong[] = {0, 3, 24, SIZE_MAX};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    EXPECT_ERRNO(mi_new_aligned(100, wrong[i]), EINVAL);
    EXPECT_ERRNO(mi_new_aligned_nothrow(100, wrong[i]), EINVAL);
  }
}

int main(void) {
  expect_errors();
  test_success();
  test_failure();
  return expect_end("new in C");
}
