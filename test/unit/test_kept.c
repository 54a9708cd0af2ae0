// SPDX-License-Identifier: MIT
// What is kept ready for the next: pages in the record of a heap that was destroyed, and the huge
// pages of freed blocks. Each is used again, the latest first, no more are kept than may be, and a
// collection gives all of them back.
#include <stdio.h>

#include "../../include/mimalloc.h"
#include "../../src/alloc/alloc.h"
#include "../../src/heap/heap.h"
#include "../../src/heap/huge_cache.h"
#include "../../src/page/holes.h"

#define PLACES 8  // of a size of small huge pages
#define BLOCKS 20

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static intptr_t slices_in_use(void) { return mx_load_relaxed(&mx_subproc_main.arenas.in_use); }

// Pages that records of heaps keep, in builds that have them keep any.
static void heaps_that_are_gone(void) {
  mi_collect(true);
  const intptr_t before = slices_in_use();
  for (int n = 0; n < 3; n++) {
    mi_heap_t* const heap = mi_heap_new();
    for (size_t size = 16; size <= 4096; size *= 2) EXPECT(mi_heap_malloc(heap, size) != NULL);
    mi_heap_destroy(heap);
  }
  if (!MX_PADDING && !MX_RANDOM_ORDER && !MX_ISOLATE && MX_HOLES) {
    EXPECT(mx_load_relaxed(&mx_subproc_main.cached_pages) > 0);
    EXPECT(slices_in_use() > before);
  }
  mi_collect(true);
  EXPECT(mx_load_relaxed(&mx_subproc_main.cached_pages) == 0);
  EXPECT(slices_in_use() == before);
}

static void* block_of(size_t slices) {
  mx_heap_t* const heap = &mx_subproc_main.main_heap;
  return mx_huge_alloc(heap, slices * MX_SLICE_SIZE - MX_SLICE_SIZE / 2, 1, false, false);
}

static void blocks_that_are_gone(size_t slices) {
  void* first[BLOCKS];
  mx_huge_cache_flush(true);
  const intptr_t before = slices_in_use();
  for (int i = 0; i < BLOCKS; i++) {
    first[i] = block_of(slices);
    EXPECT(first[i] != NULL);
  }
  for (int i = 0; i < PLACES; i++) mi_free(first[i]);
  EXPECT(slices_in_use() == before + (intptr_t)(BLOCKS * slices));  // all are kept
  for (int i = PLACES; i-- > 0;) EXPECT(block_of(slices) == first[i]);
  for (int i = 0; i < PLACES; i++) mi_free(first[i]);
  for (int i = PLACES; i < BLOCKS; i++) mi_free(first[i]);
  EXPECT(slices_in_use() == before + (intptr_t)(PLACES * slices));
  mx_huge_cache_flush(true);
  EXPECT(slices_in_use() == before);
}

int main(void) {
  mi_free(mi_malloc(1));
  mi_option_set(mi_option_purge_delay, 60000);
  heaps_that_are_gone();
  // Hardened builds keep none, and blocks of theirs are more than malloc's floor below makes.
  for (size_t slices = 1; !MX_HARDEN && slices <= 8; slices += 7) blocks_that_are_gone(slices);
  printf("%d failures\n", failures);
  return failures != 0;
}
