// SPDX-License-Identifier: MIT
// A free block of a larger size serves where a bin of few blocks would take new memory: as large, as
// aligned and as zero as it has to be, never where the bin has its own, many blocks, or hardening.
// And a bin whose first partial pages have hardly a free block looks at others the next time.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../../src/alloc/alloc.h"
#include "../../src/alloc/harden.h"
#include "../../src/heap/theap.h"
#include "../../src/heap/thread_life.h"

#define KIB ((size_t)1024)
#define MANY 4       // blocks with which a bin has enough of its own
#define MOST 64      // as many larger blocks as one bin gets
#define HALVED 512   // as all bins get before that counts for half
#define BLOCKS 200
#define PAGES 80     // of 64 KiB with blocks of 1,024 bytes, and blocks of one
#define IN_PAGE 64

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static bool serves(size_t free_size, size_t size) {
  void* const larger = mi_malloc(free_size);
  mi_free(larger);
  void* const p = mi_malloc(size);
  const bool is_same = (p == larger);
  mi_free(p);
  return is_same;
}

static void test_which(void) {
  EXPECT(serves(19 * KIB, 17 * KIB) == !MX_HARDEN);
  EXPECT(serves(36 * KIB, 23 * KIB) == !MX_HARDEN);
  EXPECT(!serves(112 * KIB, 50 * KIB));  // more than twice as large
  EXPECT(!serves(9 * KIB, 8 * KIB));
  // Of the six next sizes.
  EXPECT(serves(240 * KIB, 130 * KIB) == !MX_HARDEN);
  EXPECT(!serves(512 * KIB - MX_PAD, 257 * KIB));
  // One that is of the size itself comes first.
  void* const own = mi_malloc(14 * KIB);
  mi_free(own);
  void* const p = mi_malloc(14 * KIB);
  EXPECT(p == own || MX_HARDEN);
  mi_free(p);
}

static void test_many(void) {
  void* blocks[MANY];
  for (size_t i = 0; i < MANY; i++) blocks[i] = mi_malloc(40 * KIB);
  void* const larger = mi_malloc(44 * KIB);
  mi_free(larger);
  void* const p = mi_malloc(40 * KIB);
  EXPECT(p != larger);
  mi_free(p);
  for (size_t i = 0; i < MANY; i++) mi_free(blocks[i]);
}

// Nor has a bin few whose current page has only just begun, behind one that is full.
static void test_full(void) {
  static void* blocks[BLOCKS];
  const mx_theap_t* const theap = mx_thread_theap();
  const size_t bin = mx_bin_of(9 * KIB);
  size_t count = 0;
  while (count < BLOCKS && theap->lists.full_count[bin] == 0) {
    blocks[count++] = mi_malloc(9 * KIB - MX_PAD);
  }
  EXPECT(theap->lists.full_count[bin] == 1);
  EXPECT(theap->bins.current[bin]->capacity < MANY || MX_HARDEN);
  EXPECT(!serves(10 * KIB, 9 * KIB - MX_PAD));
  while (count > 0) mi_free(blocks[--count]);
}

static void test_contents(void) {
  unsigned char* const larger = mi_malloc(120 * KIB);
  memset(larger, 0x5A, 120 * KIB);
  mi_free(larger);
  unsigned char* const p = mi_zalloc(100 * KIB);
  EXPECT(p == larger || MX_HARDEN);
  size_t set = 0;
  for (size_t i = 0; i < mi_usable_size(p); i++) set += (p[i] != 0);
  EXPECT(set == 0 && mi_usable_size(p) >= 100 * KIB);
  mi_free(p);
}

// What is next to the request in size is aligned to 1 KiB only, behind the first block of its page.
static void test_aligned(void) {
  void* firsts[12];
  size_t count = 0;
  for (size_t size = 9 * KIB; size < 16 * KIB; size += 2 * KIB) {
    for (size_t factor = 1; factor <= 4; factor *= 2) {
      void* const p = firsts[count++] = mi_malloc(factor * size);
      mi_free(mi_malloc(factor * size));
      EXPECT(p != NULL);
    }
  }
  for (size_t align = 64 * KIB; align >= 16; align /= 2) {
    for (size_t size = 8 * KIB + 1; size < 64 * KIB; size += 3 * KIB + 5) {
      void* const p = mi_malloc_aligned(size, align);
      EXPECT((uintptr_t)p % align == 0 && mi_usable_size(p) >= size);
      mi_free(p);
    }
  }
  while (count > 0) mi_free(firsts[--count]);
}

// The slow visits of a program that lives on such blocks go on, but few of the blocks cost one.
static void test_visits(void) {
  mi_free(mi_malloc(19 * KIB));
  const uint32_t before = mx_thread_theap()->visits;
  for (int i = 0; i < MOST - 1; i++) serves(19 * KIB, 17 * KIB);
  EXPECT(MX_HARDEN || mx_thread_theap()->visits - before == (MOST - 1) / 16);
}

// A bin that has had many of them lately has its own from then on.
static void test_most(void) {
  static void* blocks[BLOCKS];
  size_t larger = 0;
  for (size_t i = 0; i < BLOCKS; i++) {
    void* const p = mi_malloc(19 * KIB);
    mi_free(p);
    blocks[i] = mi_malloc(17 * KIB);
    larger += (blocks[i] == p);
  }
  EXPECT(larger == (MX_HARDEN ? 0 : MOST));
  if (larger != MOST) printf("%zu larger blocks\n", larger);
  for (size_t i = 0; i < BLOCKS; i++) mi_free(blocks[i]);
}

// How many requests just below a bin's size have the block that was freed of the next bin.
static size_t larger_in_a_row(size_t size, size_t larger, size_t most) {
  for (size_t n = 0; n < most; n++) {
    if (!serves(larger, size - 1)) return n;
  }
  return most;
}

// Once bins have had so many of them together, those that had the most may have more.
static void test_halved(void) {
  static const size_t kib[] = {9, 11, 13, 15, 18, 22, 26, 30};
  const size_t bins = sizeof(kib) / sizeof(kib[0]);
  if (MX_HARDEN) return;
  for (size_t i = 0; i < bins; i++) {
    const size_t size = kib[i] * KIB, next = size + (size < 16 * KIB ? 1 : 2) * KIB;
    EXPECT(larger_in_a_row(size, next, MOST) == MOST);
  }
  EXPECT(mx_thread_theap()->larger.count == HALVED);
  EXPECT(larger_in_a_row(9 * KIB, 10 * KIB, MOST) == MOST / 2);
}

// A block that is resized to what it has stays where it is.
static void test_realloc(void) {
  void* const first = mi_malloc(20 * KIB);
  mi_free(mi_malloc(20 * KIB));
  void* p = mi_malloc(10 * KIB + 1);
  size_t moves = 0;
  for (size_t size = 10 * KIB + 1; size < 11 * KIB; size++) {
    void* const same = mi_realloc(p, size);
    moves += (same != p);
    p = same;
  }
  EXPECT(moves == 0 || MX_HARDEN);
  mi_free(p);
  mi_free(first);
}

// ---- partial pages -----------------------------------------------------------------------------

static void* all[PAGES * IN_PAGE];

static size_t pages_now(void) {
  return (size_t)mx_load_relaxed(&mx_subproc_main.main_heap.counters.pages.current);
}

// As many pages as hardly have a free block, and behind them one with many.
static void test_poor_pages(void) {
  const size_t size = KIB;
  for (size_t i = 0; i < PAGES * IN_PAGE; i++) all[i] = mi_malloc(size);
  for (size_t page = 0; page < PAGES; page++) {
    mi_free(all[page * IN_PAGE]);
    all[page * IN_PAGE] = NULL;
  }
  const size_t rich = (PAGES - 2) * IN_PAGE;
  for (size_t i = rich; i < rich + IN_PAGE / 2; i++) {
    mi_free(all[i]);
    all[i] = NULL;
  }
  const size_t before = pages_now();
  size_t used = 0;
  static void* more[PAGES * IN_PAGE];
  // By the time that a quarter of them were looked at and went to the end, it is found.
  for (; used < PAGES / 4 * IN_PAGE + 2 * IN_PAGE; used++) {
    more[used] = mi_malloc(size);
    if ((uintptr_t)more[used] / (64 * KIB) == (uintptr_t)all[rich + IN_PAGE / 2] / (64 * KIB)) break;
  }
  EXPECT(used < PAGES / 4 * IN_PAGE + 2 * IN_PAGE || MX_HARDEN);
  EXPECT(pages_now() - before <= PAGES / 4 + 2);
  for (size_t i = 0; i <= used && i < PAGES * IN_PAGE; i++) mi_free(more[i]);
  for (size_t i = 0; i < PAGES * IN_PAGE; i++) mi_free(all[i]);
}

// Each in a thread that has no pages yet.
typedef void test_fn(void);

static void* begin(void* test) {
  (*(test_fn**)test)();
  return NULL;
}

int main(void) {
  static test_fn* const tests[] = {&test_aligned, &test_contents, &test_which,  &test_many,
                                   &test_full,    &test_visits,   &test_most,   &test_halved,
                                   &test_realloc, &test_poor_pages};
  mi_option_set(mi_option_theap_retain, 0);
  for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
    test_fn* test = tests[i];
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, &begin, &test) == 0 && pthread_join(thread, NULL) == 0);
  }
  printf("%d failures\n", failures);
  return failures != 0;
}
