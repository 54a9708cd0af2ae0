// SPDX-License-Identifier: MIT
// The first blocks of threads that are many come from pages of all (heap/common.h): what is promised
// of a block holds of those, too, and none is alone in its page for it.
#include <mimalloc-stats.h>
#include <pthread.h>

#include "expect.h"

#define THREADS 40

static pthread_barrier_t all_live, may_end;

static size_t huge_blocks(void) {
  mi_stats_merge();
  mi_stats_t_decl(stats);
  EXPECT(mi_stats_get(&stats));
  return (size_t)stats.malloc_huge_count.total;
}

// What page it is of has no alignment beyond that of its colors, nor may be marked.
static void test_aligned(void) {
  for (size_t align = 128; align <= 1024; align *= 2) {
    for (size_t size = align; size <= 4096; size += 2 * align) {
      unsigned char* const p = mi_malloc_aligned(size, align);
      EXPECT_AT(size, p != NULL && (uintptr_t)p % align == 0);
      memset(p, 4, size);
      mi_free(p);
    }
  }
  for (size_t align = 128; align <= 1024; align *= 2) {
    unsigned char* const p = mi_malloc_aligned(align, align);
    unsigned char* const q = mi_zalloc_aligned_at(100, align, 8);
    EXPECT_AT(align, p != NULL && (uintptr_t)p % align == 0);
    EXPECT_AT(align, q != NULL && (uintptr_t)(q + 8) % align == 0);
    for (size_t i = 0; i < 100; i++) EXPECT_AT(i, q[i] == 0);
    memset(p, 1, align);
    memset(q, 2, 100);
    mi_free(p);
    mi_free(q);
  }
}

// A block that was larger than the size needs does not move for that, but in builds that move all.
static void test_small_steps(void) {
  for (size_t size = 17; size <= 64; size++) {
    unsigned char* const p = mi_malloc(size);
    EXPECT_AT(size, p != NULL && mi_usable_size(p) >= size && mi_usable_size(p) <= 128);
    memset(p, 3, size);
    unsigned char* const q = mi_realloc(p, size - 1);
    EXPECT_AT(size, (q == p || MX_DEBUG > 0) && q[0] == 3 && q[size - 2] == 3);
    mi_free(q);
    unsigned char* const r = mi_malloc(size);
    memset(r, 3, size);
    unsigned char* const s = mi_realloc_aligned(r, size / 2, 8);
    EXPECT_AT(size, s != NULL && s[0] == 3 && s[size / 2 - 1] == 3);
    mi_free(s);
  }
}

// What another heap has is no common page's.
static void test_of_other(mi_heap_t* heap) {
  unsigned char* const p = mi_heap_malloc(heap, 64);
  EXPECT(p != NULL && mi_usable_size(p) >= 64);
  memset(p, 5, 64);
  unsigned char* const q = mi_realloc(p, 20);
  EXPECT(q[0] == 5 && q[19] == 5);
  mi_free(q);
}

static void test_zeroes(void) {
  for (size_t size = 1; size <= 8192; size += 61) {
    unsigned char* const p = mi_zalloc(size);
    EXPECT_AT(size, p != NULL);
    for (size_t i = 0; i < size; i++) EXPECT_AT(size, p[i] == 0);
    memset(p, 0xAA, size);
    mi_free(p);
  }
}

static void* works(void* argument) {
  mi_free(mi_malloc(1));  // now it counts
  pthread_barrier_wait(&all_live);
  test_small_steps();
  test_of_other(argument);
  test_aligned();
  test_zeroes();
  pthread_barrier_wait(&may_end);
  return argument;
}

int main(void) {
  pthread_t ids[THREADS];
  mi_free(mi_malloc(1));
  pthread_barrier_init(&all_live, NULL, THREADS);
  pthread_barrier_init(&may_end, NULL, THREADS);
  const size_t before = huge_blocks();
  mi_heap_t* const heap = mi_heap_new();
  for (int i = 0; i < THREADS; i++) EXPECT(pthread_create(&ids[i], NULL, &works, heap) == 0);
  for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
  EXPECT(huge_blocks() == before);
  mi_heap_destroy(heap);
  return expect_end("common pages");
}
