// SPDX-License-Identifier: MIT
// Aligned allocation: every power of two, at every kind of offset, for sizes around them; resizing,
// zeroing, refusals; and pointers into blocks in the hands of other threads.
#include <pthread.h>

#include "expect.h"
#include "has_time.h"

static const size_t sizes[] = {0,   1,   7,    8,    15,   16,   17,    31,    64,     100,  255,
                               256, 500, 1024, 1025, 4095, 4096, 10000, 65536, 100000, 1 << 20};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

// ---- without an offset -------------------------------------------------------------------------

static void test_alignments(void) {
  for (size_t align = 1; align <= ((size_t)1 << 27); align *= 2) {
    void* blocks[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
      KEEP_ERRNO(blocks[i] = mi_malloc_aligned(sizes[i], align));
      EXPECT_AT(align, blocks[i] != NULL && is_multiple(blocks[i], align));
      EXPECT_AT(align, is_usable_for(blocks[i], sizes[i]));
      if (sizes[i] > 0) memset(blocks[i], (int)i, sizes[i]);
    }
    // In another order than they came.
    for (size_t i = 0; i < SIZES; i++) {
      void* const p = blocks[(i * 8 + 3) % SIZES];
      EXPECT(is_filled(p, sizes[(i * 8 + 3) % SIZES], (unsigned char)((i * 8 + 3) % SIZES)));
      mi_free(p);
    }
  }
}

static void test_refusals(void) {
  static const size_t wrong[] = {0, 3, 5, 6, 7, 12, 24, 100, 4097, SIZE_MAX};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    EXPECT_ERRNO(mi_malloc_aligned(100, wrong[i]), EINVAL);
    EXPECT_ERRNO(mi_zalloc_aligned(100, wrong[i]), EINVAL);
    EXPECT_ERRNO(mi_calloc_aligned(10, 10, wrong[i]), EINVAL);
    EXPECT_ERRNO(mi_malloc_aligned_at(100, wrong[i], 8), EINVAL);
    EXPECT_ERRNO(mi_zalloc_aligned_at(100, wrong[i], 8), EINVAL);
    EXPECT_ERRNO(mi_realloc_aligned(NULL, 100, wrong[i]), EINVAL);
    EXPECT_ERRNO(mi_rezalloc_aligned_at(NULL, 100, wrong[i], 8), EINVAL);
  }
  static const size_t huge[] = {(size_t)PTRDIFF_MAX + 1, (size_t)PTRDIFF_MAX, SIZE_MAX,
                                SIZE_MAX - 8, SIZE_MAX - 4096};
  for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
    for (size_t align = 1; align <= 65536; align *= 16) {
      EXPECT_ERRNO(mi_malloc_aligned(huge[i], align), ENOMEM);
      EXPECT_ERRNO(mi_zalloc_aligned(huge[i], align), ENOMEM);
      EXPECT_ERRNO(mi_malloc_aligned_at(huge[i], align, 1), ENOMEM);
    }
  }
  // Of addresses of 32 bits one is such a multiple, and may be free.
  if (sizeof(size_t) > 4) EXPECT_ERRNO(mi_malloc_aligned(100, (size_t)PTRDIFF_MAX + 1), ENOMEM);
  EXPECT_ERRNO(mi_calloc_aligned(SIZE_MAX / 2, 3, 64), ENOMEM);
  EXPECT_ERRNO(mi_calloc_aligned_at(SIZE_MAX / 2, 3, 64, 8), ENOMEM);
  EXPECT_ERRNO(mi_malloc_aligned_at(100, 1 << 17, 8), EOVERFLOW);
  EXPECT_ERRNO(mi_zalloc_aligned_at(100, 1 << 20, 1), EOVERFLOW);
  // A block survives a call that fails on it.
  char* const p = (char*)mi_malloc_aligned(100, 64);
  strcpy(p, "kept");
  EXPECT_ERRNO(mi_realloc_aligned(p, 200, 24), EINVAL);
  EXPECT_ERRNO(mi_realloc_aligned(p, SIZE_MAX, 64), ENOMEM);
  EXPECT_ERRNO(mi_recalloc_aligned(p, SIZE_MAX, 2, 64), ENOMEM);
  EXPECT_ERRNO(mi_recalloc_aligned_at(p, SIZE_MAX, 2, 64, 8), ENOMEM);
  EXPECT_ERRNO(mi_realloc_aligned_at(p, 100, 1 << 18, 8), EOVERFLOW);
  EXPECT(strcmp(p, "kept") == 0);
  mi_free(p);
}

// ---- with an offset ----------------------------------------------------------------------------

static const size_t offsets[] = {1, 2, 7, 8, 15, 16, 24, 32, 40, 63, 64, 1000, 4096, 4100, 70000};
#define OFFSETS (sizeof(offsets) / sizeof(offsets[0]))

static void use_at(size_t size, size_t align, size_t offset) {
  const size_t row = align * 1000000 + offset;
  unsigned char* p;
  KEEP_ERRNO(p = (unsigned char*)mi_malloc_aligned_at(size, align, offset));
  EXPECT_AT(row, p != NULL && is_multiple(p + offset, align));
  EXPECT_AT(row, is_usable_for(p, size));
  memset(p, 0x11, size);
  unsigned char* const z = (unsigned char*)mi_zalloc_aligned_at(size, align, offset);
  EXPECT_AT(row, z != NULL && is_multiple(z + offset, align) && is_zero(z, mi_usable_size(z)));
  memset(z, 0x22, size);
  unsigned char* const c = (unsigned char*)mi_calloc_aligned_at(size, 2, align, offset);
  EXPECT_AT(row, c != NULL && is_multiple(c + offset, align) && is_zero(c, mi_usable_size(c)));
  EXPECT_AT(row, is_filled(p, size, 0x11) && is_filled(z, size, 0x22));
  KEEP_ERRNO(mi_free(z));
  p = (unsigned char*)mi_realloc_aligned_at(p, size * 2 + 1, align, offset);
  EXPECT_AT(row, p != NULL && is_multiple(p + offset, align) && is_filled(p, size, 0x11));
  EXPECT_AT(row, is_usable_for(p, size * 2 + 1));
  memset(c, 0x33, size * 2);
  mi_free(p);
  mi_free(c);
}

static void test_offsets(void) {
  dirty_the_heap();
  time_t begun = 0;
  for (size_t i = 0; i < OFFSETS && has_time(&begun); i++) {
    for (size_t align = 1; align <= 65536; align *= 2) {
      const size_t step = (align > 4096 ? 5 : 1);
      for (size_t s = 0; s < SIZES; s += step) use_at(sizes[s], align, offsets[i]);
    }
  }
  // Multiples of the alignment are no offset at all.
  for (size_t align = 1 << 16; align <= 1 << 22; align *= 2) {
    void* const p = mi_malloc_aligned_at(100, align, align * 3);
    EXPECT_AT(align, p != NULL && is_multiple(p, align));
    mi_free(p);
  }
}

// Pages with such blocks serve others as well, and find their way back to the fast path.
static void test_mixed_page(void) {
  enum { COUNT = 5000 };
  static unsigned char* blocks[COUNT];
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < COUNT; i++) {
      const int at = i % 3 == round % 3;
      blocks[i] = (unsigned char*)(at ? mi_malloc_aligned_at(40, 32, 8) : mi_malloc(70));
      EXPECT_AT(i, blocks[i] != NULL && (!at || is_multiple(blocks[i] + 8, 32)));
      memset(blocks[i], i & 0xFF, 40);
    }
    for (int i = 0; i < COUNT; i++) {
      unsigned char* const p = blocks[(i * 1237) % COUNT];
      EXPECT(is_filled(p, 40, (unsigned char)((i * 1237) % COUNT & 0xFF)));
      mi_free(p);
    }
  }
}

// What is kept of a freed block, to be used again, no longer has a user with a pointer into it.
static void test_huge(void) {
  for (int round = 0; round < 3; round++) {
    char* p = (char*)mi_malloc_aligned_at(3000000, 4096, 128);
    EXPECT(p != NULL && is_multiple(p + 128, 4096) && is_usable_for(p, 3000000));
    memset(p, 1, 3000000);
    p = (char*)mi_realloc_aligned_at(p, 4000000, 4096, 128);
    EXPECT(p != NULL && is_multiple(p + 128, 4096) && is_filled(p, 3000000, 1));
    mi_free(p);
    EXPECT(mi_usable_size(p) == 0);
    p = (char*)mi_malloc(4000000);
    const int before = error_count;
    mi_free(p + 4096 - 128);
    EXPECT(error_count == before + 1 && error_last == EINVAL);
    EXPECT(mi_usable_size(p) >= 4000000 && mi_usable_size(p + 4096 - 128) == 0);
    mi_free(p);
  }
}

// realloc without a word of alignment makes a block as malloc does.
static void test_plain_realloc(void) {
  for (size_t size = 1; size < 200000; size = size * 3 + 1) {
    unsigned char* p = (unsigned char*)mi_malloc_aligned_at(size, 16, 5);
    memset(p, 0x44, size);
    p = (unsigned char*)mi_realloc(p, size);
    EXPECT_AT(size, p != NULL && is_multiple(p, 16) && is_filled(p, size, 0x44));
    mi_free(p);
    p = (unsigned char*)mi_malloc_aligned_at(size, 4096, 16);
    memset(p, 0x55, size);
    EXPECT_AT(size, MX_PADDING || mi_expand(p, size) == p);
    p = (unsigned char*)mi_realloc(p, size * 2);
    EXPECT_AT(size, p != NULL && is_filled(p, size, 0x55));
    mi_free(p);
  }
}

static void* make_one(void* arg) {
  *(char**)arg = (char*)mi_malloc(3000);
  return NULL;
}

// A pointer into a block that nobody asked to be shifted stays an error. That of another thread is
// always found out.
static void test_interior(void) {
  pthread_t maker;
  char* p = NULL;
  EXPECT(pthread_create(&maker, NULL, make_one, &p) == 0);
  pthread_join(maker, NULL);
  const int before = error_count;
  mi_free(p + 16);
  EXPECT(error_count == before + 1 && error_last == EINVAL);
  mi_free(p + 1);
  EXPECT(error_count == before + 2 && error_last == EINVAL);
  EXPECT(mi_usable_size(p + 16) == 0 && mi_malloc_size(p + 3) == 0);
  EXPECT_ERRNO(mi_realloc(p + 32, 10), EINVAL);
  EXPECT(mi_usable_size(p) >= 3000);
  mi_free(p);
}

#define NEIGHBOURS 200  // more than a page has

static void* make_neighbours(void* arg) {
  for (int i = 0; i < NEIGHBOURS; i++) ((char**)arg)[i] = (char*)mi_malloc(1000);
  return NULL;
}

// The same where nothing is mapped behind the page.
static void test_interior_at_end(void) {
  pthread_t maker;
  char* blocks[NEIGHBOURS];
  EXPECT(pthread_create(&maker, NULL, make_neighbours, blocks) == 0);
  pthread_join(maker, NULL);
  for (int i = 0; i < NEIGHBOURS; i++) {
    const int before = error_count;
    mi_free(blocks[i] + 992);
    EXPECT(error_count == before + 1 && error_last == EINVAL);
  }
  for (int i = 0; i < NEIGHBOURS; i++) mi_free(blocks[i]);
}

// ---- resizing ----------------------------------------------------------------------------------

static void test_realloc(void) {
  for (size_t align = 8; align <= 1 << 17; align *= 2) {
    size_t size = 10;
    unsigned char* p = (unsigned char*)mi_realloc_aligned(NULL, size, align);
    EXPECT_AT(align, p != NULL && is_multiple(p, align));
    memset(p, 0x66, size);
    for (; size < 300000; size = size * 2 + 5) {
      p = (unsigned char*)mi_realloc_aligned(p, size * 2 + 5, align);
      EXPECT_AT(align, p != NULL && is_multiple(p, align) && is_filled(p, size, 0x66));
      memset(p, 0x66, size * 2 + 5);
    }
    p = (unsigned char*)mi_realloc_aligned(p, 20, align);
    EXPECT_AT(align, is_multiple(p, align) && is_filled(p, 20, 0x66) && is_usable_for(p, 20));
    p = (unsigned char*)mi_realloc_aligned(p, 0, align);
    EXPECT_AT(align, p != NULL && is_multiple(p, align));
    mi_free(p);
  }
}

// Small steps, for which room is left; what lies in front of the block or behind it must not know.
static void test_growing(void) {
  error_count = 0;
  time_t begun = 0;
  for (size_t offset = 0; offset < 40 && has_time(&begun); offset += 9) {
    for (size_t align = 16; align <= ((size_t)1 << 17); align *= 8) {
      void* p = mi_malloc_aligned_at(10000, align, offset);
      for (size_t size = 10000; size < 600000; size += size / 20) {
        p = mi_realloc_aligned_at(p, size, align, offset);
        EXPECT_AT(align, p != NULL && is_multiple((char*)p + offset, align));
        memset(p, 7, size);
      }
      mi_free(p);
      p = mi_realloc_aligned(mi_malloc(400000), 420000, align);
      mi_free_size_aligned(p, 420000, align);
    }
  }
  EXPECT(error_count == 0);
}

// Blocks that cannot grow where they are.
static void test_growing_huge(void) {
  enum { COUNT = 30 };
  void* blocks[COUNT];
  void* between[COUNT];
  const size_t align = (size_t)1 << 23;
  for (size_t i = 0; i < COUNT; i++) {
    blocks[i] = mi_malloc_aligned((size_t)1 << 20, align);
    between[i] = mi_malloc_aligned(600000, 65536);
    EXPECT(blocks[i] != NULL && between[i] != NULL);
    memset(blocks[i], (int)i, (size_t)1 << 20);
  }
  for (size_t i = 0; i < COUNT; i++) {
    blocks[i] = mi_realloc_aligned(blocks[i], (size_t)5 << 20, align);
    EXPECT_AT(i, blocks[i] != NULL && is_multiple(blocks[i], align));
    EXPECT_AT(i, is_filled(blocks[i], (size_t)1 << 20, (unsigned char)i));
  }
  for (size_t i = 0; i < COUNT; i++) {
    mi_free(blocks[i]);
    mi_free(between[i]);
  }
}

static void test_zeroed(void) {
  dirty_the_heap();
  for (size_t align = 8; align <= 1 << 17; align *= 4) {
    for (size_t offset = 0; offset <= (align <= 65536 ? 24u : 0u); offset += 8) {
      unsigned char* p = (unsigned char*)mi_rezalloc_aligned_at(NULL, 10, align, offset);
      EXPECT_AT(align, is_multiple(p + offset, align) && is_zero(p, 10));
      for (size_t size = 10; size < 200000; size *= 3) {
        p = (unsigned char*)mi_recalloc_aligned_at(p, size, 3, align, offset);
        EXPECT_AT(align, is_multiple(p + offset, align) && is_zero(p, mi_usable_size(p)));
      }
      mi_free(p);
      p = (unsigned char*)mi_rezalloc_aligned(NULL, 100, align);
      p = (unsigned char*)mi_recalloc_aligned(p, 100, 100, align);
      EXPECT_AT(align, is_multiple(p, align) && is_zero(p, mi_usable_size(p)));
      mi_free(p);
      EXPECT_AT(align, (p = (unsigned char*)mi_zalloc_aligned(777, align)) != NULL);
      EXPECT_AT(align, is_zero(p, mi_usable_size(p)));
      mi_free(p);
      EXPECT_AT(align, (p = (unsigned char*)mi_calloc_aligned(7, 111, align)) != NULL);
      EXPECT_AT(align, is_zero(p, mi_usable_size(p)));
      mi_free(p);
    }
  }
}

// ---- other threads -----------------------------------------------------------------------------

enum { PASSED = 2000 };
static unsigned char* passed[PASSED];

static size_t size_of_passed(int i) { return (size_t)(i % 7 == 0 ? 3000 : 40 + i % 50); }

static void* make(void* arg) {
  (void)arg;
  for (int i = 0; i < PASSED; i++) {
    const size_t size = size_of_passed(i);
    passed[i] = (unsigned char*)mi_malloc_aligned_at(size, 64, 4);
    EXPECT_AT(i, is_multiple(passed[i] + 4, 64));
    memset(passed[i], i & 0xFF, size);
  }
  return NULL;
}

static void* resize_and_free(void* arg) {
  const int from = *(const int*)arg;
  for (int i = from; i < PASSED; i += 2) {
    const size_t size = size_of_passed(i);
    EXPECT_AT(i, is_usable_for(passed[i], size));
    passed[i] = (unsigned char*)mi_realloc_aligned_at(passed[i], size * 3, 64, 4);
    EXPECT_AT(i, is_multiple(passed[i] + 4, 64) && is_filled(passed[i], size, (i & 0xFF)));
    mi_free(passed[i]);
  }
  return NULL;
}

// The maker is alive in some rounds, and in the others its pages are nobody's, so that those who
// free become their owners.
static void test_threads(void) {
  time_t begun = 0;
  for (int round = 0; round < 20 && has_time(&begun); round++) {
    pthread_t maker, users[2];
    int from[2] = {0, 1};
    if (round % 2 == 0) {
      make(NULL);
    } else {
      EXPECT(pthread_create(&maker, NULL, make, NULL) == 0);
      pthread_join(maker, NULL);
    }
    for (int i = 0; i < 2; i++) {
      EXPECT(pthread_create(&users[i], NULL, resize_and_free, &from[i]) == 0);
    }
    for (int i = 0; i < 2; i++) pthread_join(users[i], NULL);
  }
}

int main(void) {
  expect_errors();
  test_alignments();
  test_refusals();
  test_interior();
  test_interior_at_end();
  test_offsets();
  test_mixed_page();
  test_huge();
  test_plain_realloc();
  test_realloc();
  test_growing();
  test_growing_huge();
  test_zeroed();
  test_threads();
  return expect_end("aligned");
}
