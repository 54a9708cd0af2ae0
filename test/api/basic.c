// SPDX-License-Identifier: MIT
// The basic calls: sizes from nothing to more than there is, resizing, zeroing, block sizes, text,
// errno, and pointers that are none of ours.
#include <limits.h>
#include <unistd.h>

#include "expect.h"

static const size_t sizes[] = {0,    1,    8,     15,    16,    17,     24,      64,      100,
                               255,  1000, 1024,  1025,  4000,  4096,   8192,    8193,    16384,
                               20000, 65536, 65537, 131072, 400000, 524288, 600000, 5000000};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static const size_t too_large[] = {(size_t)PTRDIFF_MAX, (size_t)PTRDIFF_MAX + 1, SIZE_MAX - 4096,
                                   SIZE_MAX - 15, SIZE_MAX - 1, SIZE_MAX};
#define TOO_LARGE (sizeof(too_large) / sizeof(too_large[0]))

// ---- one row for each call that takes a size ---------------------------------------------------

static void* call_calloc(size_t n) { return mi_calloc(1, n); }
static void* call_calloc_n(size_t n) { return mi_calloc(n, 1); }
static void* call_mallocn(size_t n) { return mi_mallocn(n, 1); }
static void* call_realloc(size_t n) { return mi_realloc(NULL, n); }
static void* call_reallocn(size_t n) { return mi_reallocn(NULL, 1, n); }
static void* call_reallocf(size_t n) { return mi_reallocf(NULL, n); }
static void* call_rezalloc(size_t n) { return mi_rezalloc(NULL, n); }
static void* call_recalloc(size_t n) { return mi_recalloc(NULL, n, 1); }
static void* call_umalloc(size_t n) { return mi_umalloc(n, NULL); }
static void* call_ucalloc(size_t n) { return mi_ucalloc(1, n, NULL); }
static void* call_urealloc(size_t n) { return mi_urealloc(NULL, n, NULL, NULL); }
static void* call_umalloc_aligned(size_t n) { return mi_umalloc_aligned(n, 64, NULL); }
static void* call_uzalloc_aligned(size_t n) { return mi_uzalloc_aligned(n, 64, NULL); }
static void* call_umalloc_small(size_t n) { return mi_umalloc_small(n, NULL); }
static void* call_uzalloc_small(size_t n) { return mi_uzalloc_small(n, NULL); }

static const struct {
  void* (*call)(size_t size);
  int zeroes, only_small;
} calls[] = {
    {mi_malloc, 0, 0},           {mi_zalloc, 1, 0},           {call_calloc, 1, 0},
    {call_calloc_n, 1, 0},       {call_mallocn, 0, 0},        {call_realloc, 0, 0},
    {call_reallocn, 0, 0},       {call_reallocf, 0, 0},       {call_rezalloc, 1, 0},
    {call_recalloc, 1, 0},       {call_umalloc, 0, 0},        {call_ucalloc, 1, 0},
    {call_urealloc, 0, 0},       {call_umalloc_aligned, 0, 0}, {call_uzalloc_aligned, 1, 0},
    {mi_malloc_small, 0, 1},     {mi_zalloc_small, 1, 1},     {call_umalloc_small, 0, 1},
    {call_uzalloc_small, 1, 1},
};

static void test_sizes(void) {
  for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
    dirty_the_heap();
    void* blocks[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
      blocks[i] = NULL;
      if (calls[c].only_small && sizes[i] > MI_SMALL_SIZE_MAX) continue;
      KEEP_ERRNO(blocks[i] = calls[c].call(sizes[i]));
      EXPECT_AT(c, blocks[i] != NULL && is_multiple(blocks[i], 16));
      EXPECT_AT(c, is_usable_for(blocks[i], sizes[i]));
      if (calls[c].zeroes) EXPECT_AT(c, is_zero(blocks[i], mi_usable_size(blocks[i])));
      memset(blocks[i], (int)i + 1, mi_usable_size(blocks[i]));
    }
    for (size_t i = 0; i < SIZES; i++) {
      if (blocks[i] == NULL) continue;
      EXPECT_AT(c, is_filled(blocks[i], mi_usable_size(blocks[i]), (unsigned char)(i + 1)));
      KEEP_ERRNO(mi_free(blocks[i]));
    }
    if (calls[c].only_small) continue;
    for (size_t i = 0; i < TOO_LARGE; i++) {
      EXPECT_ERRNO(calls[c].call(too_large[i]), ENOMEM);
      EXPECT_AT(c, error_last == ENOMEM);
    }
  }
}

// Blocks of 0 bytes are blocks: each has an address of its own.
static void test_nothing(void) {
  void* const p = mi_malloc(0);
  void* const q = mi_calloc(0, 100);
  void* const r = mi_calloc(100, 0);
  void* const s = mi_realloc(NULL, 0);
  EXPECT(p != NULL && q != NULL && r != NULL && s != NULL);
  EXPECT(p != q && p != r && p != s && q != r && q != s && r != s);
  mi_free(p);
  mi_free_small(q);
  mi_free(r);
  mi_free(s);
  KEEP_ERRNO(mi_free(NULL));
  KEEP_ERRNO(mi_free_small(NULL));
  KEEP_ERRNO(mi_ufree(NULL, NULL));
}

static const struct {
  size_t count, size;
} overflows[] = {{SIZE_MAX, 2},
                 {2, SIZE_MAX},
                 {SIZE_MAX, SIZE_MAX},
                 {(size_t)1 << (sizeof(size_t) * 4), (size_t)1 << (sizeof(size_t) * 4)},
                 {SIZE_MAX / 3, 4},
                 {SIZE_MAX / 16 + 1, 16}};

static void test_overflow(void) {
  char* const p = (char*)mi_malloc(10);
  strcpy(p, "kept");
  for (size_t i = 0; i < sizeof(overflows) / sizeof(overflows[0]); i++) {
    const size_t count = overflows[i].count, size = overflows[i].size;
    EXPECT_ERRNO(mi_calloc(count, size), ENOMEM);
    EXPECT_ERRNO(mi_mallocn(count, size), ENOMEM);
    EXPECT_ERRNO(mi_reallocn(NULL, count, size), ENOMEM);
    EXPECT_ERRNO(mi_reallocn(p, count, size), ENOMEM);
    EXPECT_ERRNO(mi_recalloc(p, count, size), ENOMEM);
    EXPECT_ERRNO(mi_ucalloc(count, size, NULL), ENOMEM);
    EXPECT_AT(i, strcmp(p, "kept") == 0);
  }
  mi_free(p);
}

// ---- resizing ----------------------------------------------------------------------------------

static void test_realloc(void) {
  for (size_t i = 0; i < SIZES; i++) {
    for (size_t j = 0; j < SIZES; j++) {
      const size_t keep = sizes[i] < sizes[j] ? sizes[i] : sizes[j];
      unsigned char* p = (unsigned char*)mi_malloc(sizes[i]);
      memset(p, 0x77, sizes[i]);
      KEEP_ERRNO(p = (unsigned char*)mi_realloc(p, sizes[j]));
      EXPECT_AT(i * 100 + j, p != NULL && is_filled(p, keep, 0x77));
      EXPECT_AT(i * 100 + j, is_usable_for(p, sizes[j] == 0 ? 1 : sizes[j]));
      memset(p, 0x78, sizes[j]);
      mi_free(p);
    }
  }
  // To 0 bytes: a new block, whose first byte is zero.
  char* p = (char*)mi_malloc(100);
  memset(p, 1, 100);
  KEEP_ERRNO(p = (char*)mi_realloc(p, 0));
  EXPECT(p != NULL && is_zero(unseen(p), 1));
  p = (char*)mi_reallocn(p, 0, 100);
  EXPECT(p != NULL && is_zero(unseen(p), 1));
  // A failure keeps the block, except with reallocf.
  p = (char*)mi_realloc(p, 50);
  strcpy(p, "kept");
  for (size_t i = 0; i < TOO_LARGE; i++) {
    EXPECT_ERRNO(mi_realloc(p, too_large[i]), ENOMEM);
    EXPECT_ERRNO(mi_rezalloc(p, too_large[i]), ENOMEM);
    EXPECT(strcmp(p, "kept") == 0);
    char* const q = (char*)mi_malloc(1 << 20);  // alone in its page
    EXPECT_ERRNO(mi_reallocf(q, too_large[i]), ENOMEM);
    EXPECT(mi_malloc_size(q) == 0);
  }
  mi_free(p);
}

// Within a class nothing moves; below half of it the block is changed for a smaller one.
static void test_in_place(void) {
  if (MX_PADDING) return;
  for (size_t size = 32; size < 500000; size = size * 3 / 2) {
    void* p = mi_malloc(size);
    const size_t usable = mi_usable_size(p);
    EXPECT_AT(size, mi_realloc(p, usable) == p);
    EXPECT_AT(size, mi_realloc(p, usable / 2) == p);
    EXPECT_AT(size, mi_expand(p, usable) == p && mi_expand(p, 1) == p && mi_expand(p, 0) == p);
    EXPECT_AT(size, mi_expand(p, usable + 1) == NULL);
    p = mi_realloc(p, usable / 2 - 16);
    EXPECT_AT(size, p != NULL && mi_usable_size(p) < usable);
    mi_free(p);
  }
}

static void test_expand(void) {
  void* const p = mi_malloc(100);
  EXPECT_ERRNO(mi_expand(NULL, 10), 0);
  EXPECT_ERRNO(mi_expand(p, 1 << 20), 0);
  EXPECT((mi_expand(p, 100) == p) == !MX_PADDING);
  mi_free(p);
}

static void test_zeroed(void) {
  dirty_the_heap();
  for (size_t first = 0; first < 3000; first = first * 2 + 7) {
    unsigned char* p = (unsigned char*)mi_zalloc(first);
    size_t written = first < 5 ? first : 5;
    memset(p, 0x99, written);
    for (size_t size = first + 1; size < 3000000; size = size * 2 + 11) {
      p = (unsigned char*)(size % 2 == 0 ? mi_rezalloc(p, size) : mi_recalloc(p, size, 1));
      EXPECT_AT(size, p != NULL && is_filled(p, written, 0x99));
      EXPECT_AT(size, is_zero(p + written, mi_usable_size(p) - written));
      // Down and up again: what was never written is still zero.
      p = (unsigned char*)mi_rezalloc(p, size / 3 + 1);
      if (written > size / 3 + 1) written = size / 3 + 1;
      p = (unsigned char*)mi_rezalloc(p, size);
      EXPECT_AT(size, p != NULL && is_filled(p, written, 0x99));
      EXPECT_AT(size, is_zero(p + written, mi_usable_size(p) - written));
    }
    mi_free(p);
  }
}

// ---- sizes -------------------------------------------------------------------------------------

static void test_good_size(void) {
  for (size_t size = 1; size < 4000000; size += 1 + size / 37) {
    const size_t good = mi_good_size(size);
    EXPECT_AT(size, good >= size && (size < 128 || good <= size + size / 4 + 4096));
    EXPECT_AT(size, mi_good_size(good) == good && mi_malloc_good_size(size) == good);
    void* const p = mi_malloc(size);
    size_t block = 0;
    void* const q = mi_umalloc(size, &block);
    EXPECT_AT(size, MX_PADDING || mi_usable_size(p) >= good);
    const bool is_apart = (MX_LARGE_APART && size > 190000);
    EXPECT_AT(size, is_apart || block >= (MX_PADDING ? size : good));
    // Above that a larger block may serve that is free.
    EXPECT_AT(size, size > 8 * 1024 || block == good);
    mi_free(p);
    mi_free(q);
  }
  EXPECT(mi_good_size(0) >= 1 && mi_good_size(SIZE_MAX) == SIZE_MAX);
  EXPECT(mi_good_size((size_t)PTRDIFF_MAX + 1) == (size_t)PTRDIFF_MAX + 1);
}

static void test_block_sizes(void) {
  for (size_t i = 0; i < SIZES; i++) {
    size_t made = 1, before = 2, after = 3, freed = 4;
    void* p = mi_umalloc(sizes[i], &made);
    EXPECT_AT(i, made >= sizes[i] && made >= mi_usable_size(p));
    p = mi_urealloc(p, sizes[i] * 2 + 100, &before, &after);
    EXPECT_AT(i, before == made && after >= sizes[i] * 2 + 100);
    mi_ufree(p, &freed);
    EXPECT_AT(i, freed == after);
    p = mi_ucalloc(3, sizes[i], &made);
    EXPECT_AT(i, made >= 3 * sizes[i]);
    mi_ufree(p, &freed);
    EXPECT_AT(i, freed == made);
    p = mi_umalloc_aligned(sizes[i], 256, &made);
    EXPECT_AT(i, made >= sizes[i] && is_multiple(p, 256));
    mi_ufree(p, &freed);
    EXPECT_AT(i, freed == made);
    p = mi_uzalloc_aligned(sizes[i], 4096, &made);
    EXPECT_AT(i, made >= sizes[i] && is_multiple(p, 4096) && is_zero(p, sizes[i]));
    mi_ufree(p, NULL);
  }
  size_t made = 77, before = 88;
  mi_ufree(NULL, &made);
  EXPECT(mi_umalloc(SIZE_MAX, &made) == NULL && mi_ucalloc(SIZE_MAX, 2, &made) == NULL);
  EXPECT(mi_umalloc_aligned(SIZE_MAX, 64, &made) == NULL && made == 77);
  EXPECT(mi_umalloc_aligned(100, 3, &made) == NULL && made == 77);
  void* const p = mi_urealloc(NULL, 40, &before, &made);
  EXPECT(before == 0 && made >= 40);
  const size_t kept = made;
  EXPECT(mi_urealloc(p, SIZE_MAX, &before, &made) == NULL && before == kept && made == kept);
  mi_free(p);
  void* q = mi_umalloc_small(24, &made);
  EXPECT(made >= 24);
  mi_free_small(q);
  q = mi_uzalloc_small(24, &made);
  EXPECT(made >= 24 && is_zero(q, 24));
  mi_free_small(q);
}

// ---- what is not ours --------------------------------------------------------------------------

static void test_foreign(void) {
  int local[4] = {0};
  static int global[64];
  void* const strange[] = {local, global, (void*)1, (void*)16, (void*)0x1000, (void*)(uintptr_t)-16,
                           (void*)(uintptr_t)&test_foreign};
  for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
    EXPECT_AT(i, mi_usable_size(strange[i]) == 0 && mi_malloc_size(strange[i]) == 0);
    EXPECT_ERRNO(mi_realloc(strange[i], 10), EINVAL);
    const int before = error_count;
    KEEP_ERRNO(mi_free(strange[i]));
    EXPECT_AT(i, error_count == before + 1 && error_last == EINVAL);
    KEEP_ERRNO(mi_cfree(strange[i]));
    EXPECT_AT(i, error_count == before + 1);
  }
  EXPECT(mi_usable_size(NULL) == 0);
}

// ---- text --------------------------------------------------------------------------------------

static void test_text(void) {
  char* p;
  KEEP_ERRNO(p = mi_strdup("a text"));
  EXPECT(p != NULL && strcmp(p, "a text") == 0 && is_usable_for(p, 7));
  mi_free(p);
  EXPECT((p = mi_strdup("")) != NULL && p[0] == 0);
  mi_free(p);
  EXPECT_ERRNO(mi_strdup(NULL), 0);
  EXPECT_ERRNO(mi_strndup(NULL, 3), 0);
  static const struct {
    const char* text;
    size_t n;
    const char* copy;
  } rows[] = {{"abcdef", 3, "abc"},       {"abcdef", 0, ""},   {"abc", 3, "abc"},
              {"abc", 100, "abc"},        {"", 5, ""},         {"abc", SIZE_MAX, "abc"},
              {"abc\0def", 7, "abc"}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    KEEP_ERRNO(p = mi_strndup(rows[i].text, rows[i].n));
    EXPECT_AT(i, p != NULL && strcmp(p, rows[i].copy) == 0);
    mi_free(p);
  }
  // Characters that no terminator follows.
  const char open[3] = {'x', 'y', 'z'};
  EXPECT((p = mi_strndup(open, 3)) != NULL && strcmp(p, "xyz") == 0);
  mi_free(p);
}

static void test_realpath(void) {
  char* p;
#if defined(_WIN32)
  EXPECT((p = mi_realpath("c:\\windows\\..", NULL)) != NULL && strcmp(p, "c:\\") == 0);
#else
  EXPECT((p = mi_realpath("/", NULL)) != NULL && strcmp(p, "/") == 0);
#endif
  EXPECT(mi_usable_size(p) >= 2);
  mi_free(p);
  char buffer[PATH_MAX], here[PATH_MAX];
  EXPECT(mi_realpath(".", buffer) == buffer && getcwd(here, sizeof(here)) != NULL);
  EXPECT((p = mi_realpath("./.", NULL)) != NULL && strcmp(p, buffer) == 0);
  EXPECT(strcmp(p, here) == 0);
  mi_free(p);
  errno = 0;  // folders are asked whether they are links
  EXPECT((p = mi_realpath(here, NULL)) != NULL && strcmp(p, here) == 0 && errno == 0);
  mi_free(p);
  EXPECT_ERRNO(mi_realpath("/no such file/at all", NULL), ENOENT);
  EXPECT_ERRNO(mi_realpath("", NULL), ENOENT);
  EXPECT_ERRNO(mi_realpath(NULL, NULL), EINVAL);
}

int main(void) {
  expect_errors();
  test_sizes();
  test_nothing();
  test_overflow();
  test_realloc();
  test_in_place();
  test_expand();
  test_zeroed();
  test_good_size();
  test_block_sizes();
  mi_option_set(mi_option_guarded_sample_rate, 1);
  test_block_sizes();
  mi_option_set(mi_option_guarded_sample_rate, 0);
  test_foreign();
  test_text();
  test_realpath();
  return expect_end("basic");
}
