// SPDX-License-Identifier: MIT
// The calls that other C libraries have: the argument orders, results and errno of each origin.
#include <unistd.h>
#include <wchar.h>

#include "expect.h"

static const size_t too_large[] = {(size_t)PTRDIFF_MAX + 1, SIZE_MAX - 4096, SIZE_MAX};
#define ANY (-1)
#define TOO_LARGE (sizeof(too_large) / sizeof(too_large[0]))

// ---- aligned -----------------------------------------------------------------------------------

static void test_posix_memalign(void) {
  static char untouched;
  static const struct {
    size_t align, size;
    int result;
  } rows[] = {{sizeof(void*), 0, 0},
              {sizeof(void*), 1, 0},
              {16, 100, 0},
              {64, 7, 0},
              {4096, 4097, 0},
              {65536, 10, 0},
              {1 << 21, 100, 0},
              {0, 8, EINVAL},
              {1, 8, EINVAL},
              {4, 8, sizeof(void*) == 4 ? 0 : EINVAL},
              {3, 8, EINVAL},
              {24, 8, EINVAL},
              {sizeof(void*) * 3, 8, EINVAL},
              {SIZE_MAX, 8, EINVAL},
              {64, SIZE_MAX, ENOMEM},
              {64, (size_t)PTRDIFF_MAX + 1, ENOMEM},
              {sizeof(void*), SIZE_MAX - 100, ENOMEM},
              // Of addresses of 32 bits one is such a multiple, and may be free.
              {(size_t)1 << (sizeof(size_t) * 8 - 1), 8, sizeof(size_t) == 4 ? ANY : ENOMEM}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    void* p = &untouched;
    int result = -1;
    KEEP_ERRNO(result = mi_posix_memalign(&p, rows[i].align, rows[i].size));
    EXPECT_AT(i, rows[i].result == ANY || result == rows[i].result);
    EXPECT_AT(i, (p == &untouched) == (result != 0));
    if (result != 0) continue;
    EXPECT_AT(i, is_multiple(p, rows[i].align) && is_usable_for(p, rows[i].size));
    mi_free(p);
  }
  KEEP_ERRNO(EXPECT(mi_posix_memalign(NULL, 64, 8) == EINVAL));
}

static void test_memalign(void) {
  for (size_t align = 1; align <= 1 << 20; align *= 2) {
    for (size_t size = 0; size < 100000; size = size * 5 + 1) {
      void *p, *q;
      KEEP_ERRNO(p = mi_memalign(align, size));
      KEEP_ERRNO(q = mi_aligned_alloc(align, size));
      EXPECT_AT(align, p != NULL && is_multiple(p, align) && is_usable_for(p, size));
      EXPECT_AT(align, q != NULL && is_multiple(q, align) && is_usable_for(q, size));
      mi_free_aligned(p, align);
      mi_free_aligned(q, align);
    }
  }
  static const size_t wrong[] = {0, 3, 24, 100, SIZE_MAX};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    EXPECT_ERRNO(mi_memalign(wrong[i], 8), EINVAL);
    EXPECT_ERRNO(mi_aligned_alloc(wrong[i], 8), EINVAL);
  }
  for (size_t i = 0; i < TOO_LARGE; i++) {
    EXPECT_ERRNO(mi_memalign(64, too_large[i]), ENOMEM);
    EXPECT_ERRNO(mi_aligned_alloc(64, too_large[i]), ENOMEM);
    EXPECT_ERRNO(mi_valloc(too_large[i]), ENOMEM);
    EXPECT_ERRNO(mi_pvalloc(too_large[i]), ENOMEM);
  }
}

static void test_valloc(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  static const size_t sizes[] = {0, 1, 100, 4095, 4096, 4097, 100000};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    void *p, *q;
    KEEP_ERRNO(p = mi_valloc(sizes[i]));
    KEEP_ERRNO(q = mi_pvalloc(sizes[i]));
    EXPECT_AT(i, p != NULL && is_multiple(p, page) && is_usable_for(p, sizes[i]));
    EXPECT_AT(i, q != NULL && is_multiple(q, page));
    EXPECT_AT(i, mi_usable_size(q) >= page && mi_usable_size(q) >= sizes[i]);
    EXPECT_AT(i, !MX_PADDING || mi_usable_size(q) % page == 0);
    mi_free(p);
    mi_free(q);
  }
}

// ---- arrays ------------------------------------------------------------------------------------

static void test_reallocarray(void) {
  char* p;
  KEEP_ERRNO(p = (char*)mi_reallocarray(NULL, 10, 10));
  EXPECT(p != NULL && is_usable_for(p, 100));
  strcpy(p, "kept");
  EXPECT_ERRNO(mi_reallocarray(p, SIZE_MAX, 2), EOVERFLOW);
  EXPECT_ERRNO(mi_reallocarray(NULL, SIZE_MAX / 2, 3), EOVERFLOW);
  EXPECT_ERRNO(mi_reallocarray(p, SIZE_MAX, 1), ENOMEM);
  EXPECT(strcmp(p, "kept") == 0);
  KEEP_ERRNO(p = (char*)mi_reallocarray(p, 1000, 10));
  EXPECT(p != NULL && strcmp(p, "kept") == 0 && is_usable_for(p, 10000));
  KEEP_ERRNO(p = (char*)mi_reallocarray(p, 0, 10));
  EXPECT(p != NULL);
  mi_free(p);
  KEEP_ERRNO(p = (char*)mi_reallocarray(NULL, 0, 0));
  EXPECT(p != NULL);
  mi_free(p);
}

static void test_reallocarr(void) {
  int* p = NULL;
  int result = -1;
  KEEP_ERRNO(result = mi_reallocarr(&p, 5, sizeof(int)));
  EXPECT(result == 0 && p != NULL && is_usable_for(p, 5 * sizeof(int)));
  p[4] = 44;
  static const struct {
    size_t count, size;
    int result;
  } rows[] = {{SIZE_MAX, 2, EOVERFLOW}, {SIZE_MAX / 2, 3, EOVERFLOW}, {SIZE_MAX, 1, ENOMEM},
              {1, SIZE_MAX, ENOMEM},    {5, 0, EINVAL},               {0, 0, EINVAL}};
  int* const before = p;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    errno = 0;
    EXPECT_AT(i, mi_reallocarr(&p, rows[i].count, rows[i].size) == rows[i].result);
    EXPECT_AT(i, errno == rows[i].result && p == before && p[4] == 44);
  }
  errno = 0;
  EXPECT(mi_reallocarr(NULL, 1, 1) == EINVAL && errno == EINVAL);
  KEEP_ERRNO(result = mi_reallocarr(&p, 5000, sizeof(int)));
  EXPECT(result == 0 && p[4] == 44 && is_usable_for(p, 5000 * sizeof(int)));
  KEEP_ERRNO(result = mi_reallocarr(&p, 0, sizeof(int)));
  EXPECT(result == 0 && p == NULL);
}

static void test_recalloc(void) {
  dirty_the_heap();
  char* p = (char*)mi_aligned_recalloc(NULL, 10, 10, 128);
  EXPECT(p != NULL && is_multiple(p, 128) && is_zero(p, mi_usable_size(p)));
  p = (char*)mi_aligned_recalloc(p, 100, 100, 128);
  EXPECT(p != NULL && is_multiple(p, 128) && is_zero(p, mi_usable_size(p)));
  EXPECT_ERRNO(mi_aligned_recalloc(p, 100, 100, 100), EINVAL);
  EXPECT_ERRNO(mi_aligned_recalloc(p, SIZE_MAX, 100, 128), ENOMEM);
  mi_free(p);
  p = (char*)mi_aligned_offset_recalloc(NULL, 10, 10, 128, 12);
  EXPECT(p != NULL && is_multiple(p + 12, 128) && is_zero(p, mi_usable_size(p)));
  p = (char*)mi_aligned_offset_recalloc(p, 1000, 10, 128, 12);
  EXPECT(p != NULL && is_multiple(p + 12, 128) && is_zero(p, mi_usable_size(p)));
  EXPECT_ERRNO(mi_aligned_offset_recalloc(p, 10, 10, 12, 12), EINVAL);
  EXPECT_ERRNO(mi_aligned_offset_recalloc(p, SIZE_MAX, 10, 128, 12), ENOMEM);
  mi_free(p);
}

// ---- frees and sizes ---------------------------------------------------------------------------

static void test_sized_frees(void) {
  const int before = error_count;
  for (size_t size = 0; size < 100000; size = size * 3 + 1) {
    KEEP_ERRNO(mi_free_size(mi_malloc(size), size));
    KEEP_ERRNO(mi_free_size(mi_realloc(mi_malloc(size), 0), 0));
    KEEP_ERRNO(mi_free_sized(mi_calloc(1, size), size));
    KEEP_ERRNO(mi_free_size_aligned(mi_malloc_aligned(size, 64), size, 64));
    KEEP_ERRNO(mi_free_aligned_sized(mi_aligned_alloc(64, size), 64, size));
    KEEP_ERRNO(mi_free_aligned(mi_malloc_aligned(size, 4096), 4096));
    KEEP_ERRNO(mi_free_size(mi_malloc_aligned_at(size, 64, 8), size));
  }
  mi_free_size(NULL, 10);
  mi_free_sized(NULL, 10);
  mi_free_size_aligned(NULL, 10, 64);
  mi_free_aligned_sized(NULL, 64, 10);
  mi_free_aligned(NULL, 64);
  EXPECT(error_count == before);
  if (!MX_CHECK_SIZED) return;
  // What is said must be so; a block that was not freed can be freed afterwards.
  void* const p = mi_malloc_aligned(100, 64);
  mi_free_size(p, 101);
  mi_free_sized(p, 99);
  mi_free_aligned_sized(p, 64, 0);
  EXPECT(error_count == before + 3 && error_last == EINVAL && mi_usable_size(p) == 100);
  mi_free(p);
}

static void test_sizes(void) {
  EXPECT(mi_malloc_size(NULL) == 0 && mi_malloc_usable_size(NULL) == 0);
  void* const p = mi_malloc(100);
  EXPECT(mi_malloc_size(p) == mi_usable_size(p) && mi_malloc_usable_size(p) == mi_usable_size(p));
  EXPECT_ERRNO(mi__expand(p, 1 << 20), ENOMEM);
  EXPECT_ERRNO(mi__expand(NULL, 10), ENOMEM);
  if (!MX_PADDING) KEEP_ERRNO(EXPECT(mi__expand(p, 90) == p));
  KEEP_ERRNO(mi_cfree(NULL));
  int local = 0;
  const int before = error_count;
  KEEP_ERRNO(mi_cfree(&local));
  EXPECT(error_count == before);
  mi_cfree(p);
  static const size_t addresses[] = {1, 2, 3, 4, 6, 8, 12, 0x1000, 0x1010, 0x30000, 7 * 4096 + 8};
  static const size_t alignments[] = {1, 2, 1, 4, 2, 8, 4, 0x1000, 0x10, 0x10000, 8};
  for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
    EXPECT_AT(i, mi_memalignment((void*)(uintptr_t)addresses[i]) == alignments[i]);
  }
  EXPECT(mi_memalignment(NULL) == 0);
}

// ---- text --------------------------------------------------------------------------------------

static void test_dupenv(void) {
  char* value = (char*)1;
  size_t size = 77;
  setenv("TEST_OF_DUPENV", "a value", 1);
  setenv("TEST_OF_EMPTY", "", 1);
  unsetenv("TEST_OF_NOTHING");
  EXPECT(mi_dupenv_s(&value, &size, "TEST_OF_DUPENV") == 0);
  EXPECT(value != NULL && strcmp(value, "a value") == 0 && size == 8);
  mi_free(value);
#if !defined(_WIN32)  // where no variable is without a value
  EXPECT(mi_dupenv_s(&value, NULL, "TEST_OF_EMPTY") == 0 && value != NULL && value[0] == 0);
  mi_free(value);
#endif
  EXPECT(mi_dupenv_s(&value, &size, "TEST_OF_NOTHING") == 0 && value == NULL && size == 0);
  EXPECT(mi_dupenv_s(NULL, &size, "TEST_OF_DUPENV") == EINVAL);
  EXPECT(mi_dupenv_s(&value, &size, NULL) == EINVAL);
  wchar_t* wide = L"";
#if defined(_WIN32)
  EXPECT(mi_wdupenv_s(&wide, &size, L"TEST_OF_DUPENV") == 0 && size == 8);
  EXPECT(wcscmp(wide, L"a value") == 0 && mi_is_in_heap_region(wide));
  mi_free(wide);
  EXPECT(mi_wdupenv_s(&wide, &size, L"TEST_OF_NOTHING") == 0 && wide == NULL && size == 0);
#else
  EXPECT(mi_wdupenv_s(&wide, &size, L"PATH") == EINVAL && wide == NULL);
#endif
  EXPECT(mi_wdupenv_s(NULL, NULL, NULL) == EINVAL);
}

static void test_wide(void) {
  wchar_t* wide;
  KEEP_ERRNO(wide = mi_wcsdup(L"wide \x3b1 text"));
  EXPECT(wide != NULL && wcscmp(wide, L"wide \x3b1 text") == 0);
  mi_free(wide);
  EXPECT((wide = mi_wcsdup(L"")) != NULL && wide[0] == 0);
  mi_free(wide);
  EXPECT_ERRNO(mi_wcsdup(NULL), 0);
  const unsigned char text[] = {0xE6, 0x97, 0xA5, 0};
  unsigned char* copy;
  KEEP_ERRNO(copy = mi_mbsdup(text));
  EXPECT(copy != NULL && memcmp(copy, text, sizeof(text)) == 0);
  mi_free(copy);
  EXPECT_ERRNO(mi_mbsdup(NULL), 0);
}

int main(void) {
  expect_errors();
  test_posix_memalign();
  test_memalign();
  test_valloc();
  test_reallocarray();
  test_reallocarr();
  test_recalloc();
  test_sized_frees();
  test_sizes();
  test_dupenv();
  test_wide();
  return expect_end("posix");
}
