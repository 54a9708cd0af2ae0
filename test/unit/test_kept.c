// SPDX-License-Identifier: MIT
// What is kept ready for the next: pages in the record of a heap that was destroyed, and the huge
// pages of freed blocks. Each is used again, the latest first, no more are kept than may be, and a
// collection gives all of them back.
#include <stdio.h>

#include "../../include/mimalloc.h"
#include "../../src/alloc/alloc.h"
#include "../../src/alloc/harden.h"
#include "../../src/heap/heap.h"
#include "../../src/heap/huge_cache.h"
#include "../../src/heap/trim.h"
#include "../../src/os/os.h"
#include "../../src/page/holes.h"

#define PLACES 8  // of a size of small huge pages
#define BLOCKS 20
#define KEPT_LARGE 9  // slices of one that has the place for all that are not small

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static intptr_t slices_in_use(void) { return mx_load_relaxed(&mx_subproc_main.arenas.in_use); }

static void collect_all(void) { mi_collect(true); }

static void make_holes(void) { mx_subproc_make_holes(&mx_subproc_main, false, NULL); }

// Pages that records of heaps keep, in builds that have them keep any.
static void heaps_that_are_gone(void (*give_back)(void)) {
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
  give_back();
  EXPECT(mx_load_relaxed(&mx_subproc_main.cached_pages) == 0);
  EXPECT(slices_in_use() == before);
}

static int64_t bytes_counted(void) {
  return mx_load_relaxed(&mx_subproc_main.main_heap.counters.malloc_huge.current);
}

static void* block_of(size_t slices) {
  mx_heap_t* const heap = &mx_subproc_main.main_heap;
  return mx_huge_alloc(heap, slices * MX_SLICE_SIZE - MX_SLICE_SIZE / 2, 1, false, false);
}

static void blocks_that_are_gone(size_t slices) {
  void* first[BLOCKS];
  mx_huge_cache_flush(true);
  const intptr_t before = slices_in_use();
  const int64_t bytes = bytes_counted();
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
  EXPECT(slices_in_use() == before && bytes_counted() == bytes);
}

// A size looks at its own places only.
static void others_places(void) {
  mx_huge_cache_flush(true);
  const intptr_t before = slices_in_use();
  void* const large = block_of(KEPT_LARGE);
  mi_free(large);
  void* const small = block_of(1);
  EXPECT(slices_in_use() == before + 1 + KEPT_LARGE);
  EXPECT(block_of(KEPT_LARGE) == large);
  mi_free(large);
  mi_free(small);
  mx_huge_cache_flush(true);
  EXPECT(slices_in_use() == before);
}

// The latest of those that are kept decides how long they wait.
static void time_is_up(void) {
  mx_huge_cache_flush(true);
  const intptr_t before = slices_in_use();
  mi_free(block_of(1));
  mi_free(block_of(KEPT_LARGE));
  mx_huge_cache_flush(false);
  EXPECT(slices_in_use() == before + 1 + KEPT_LARGE);
  mi_option_set(mi_option_purge_delay, 1);
  const uint64_t now = mx_os_clock_msecs();
  while (mx_os_clock_msecs() - now < 3) {
  }
  mx_huge_cache_flush(false);
  EXPECT(slices_in_use() == before);
  mi_option_set(mi_option_purge_delay, 60000);
}

// One that is kept, and lies where the next may not, is given back.
static void in_the_way(void) {
  mx_heap_t* const heap = &mx_subproc_main.main_heap;
  void* const p[2] = {block_of(1), block_of(1)};
  const intptr_t before = slices_in_use();
  void* const odd = p[mx_is_aligned(p[0], 2 * MX_SLICE_SIZE)];
  if (mx_is_aligned(odd, 2 * MX_SLICE_SIZE)) return;
  mi_free(odd);
  EXPECT(slices_in_use() == before);
  void* const even = mx_huge_alloc(heap, 100, 2 * MX_SLICE_SIZE, false, false);
  EXPECT(mx_is_aligned(even, 2 * MX_SLICE_SIZE) && slices_in_use() == before);
}

// None is kept that is larger than may be, or where nothing may wait.
static void not_kept(void) {
  mx_huge_cache_flush(true);
  const intptr_t before = slices_in_use();
  mi_free(block_of(513));
  EXPECT(slices_in_use() == before);
  mi_option_set(mi_option_purge_delay, 0);
  mi_free(block_of(1));
  EXPECT(slices_in_use() == before);
  mi_option_set(mi_option_purge_delay, 60000);
}

// A collection leaves nothing of what was kept waiting, with or without holes.
static void collected(void) {
  for (long holes = 0; holes < 2; holes++) {
    mi_option_set(mi_option_purge_holes, holes);
    mi_collect(true);
    const intptr_t before = slices_in_use();
    mi_free(block_of(KEPT_LARGE));
    mi_collect(true);
    EXPECT(slices_in_use() == before);
    EXPECT(mx_load_relaxed(&mx_subproc_main.arenas.purgeable) == 0);
  }
}

int main(void) {
  mi_free(mi_malloc(1));
  mi_option_set(mi_option_purge_delay, 60000);
  heaps_that_are_gone(&collect_all);
  heaps_that_are_gone(&make_holes);
  if (!MX_HARDEN) collected();
  // Hardened builds keep none, and blocks of theirs are more than malloc's floor below makes.
  for (size_t slices = 1; !MX_HARDEN && slices <= 8; slices += 7) blocks_that_are_gone(slices);
  if (!MX_HARDEN) {
    others_places();
    time_is_up();
    not_kept();
    in_the_way();
  }
  printf("%d failures\n", failures);
  return failures != 0;
}
