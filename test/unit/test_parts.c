// SPDX-License-Identifier: MIT
// Where addresses are scarce, pages of blocks map what they carve: how much that is, that holes and
// pages that are done with are unmapped, and that what somebody else maps in between stays whole.
// And when addresses are said to be scarce.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#if defined(__linux__)
#include <sys/resource.h>
#endif

#include "../../include/mimalloc.h"
#include "../../src/arena/arena.h"
#include "../../src/heap/adopt.h"
#include "../../src/heap/subproc.h"
#include "../../src/mem/vmem.h"
#include "../../src/os/os.h"
#include "../page_of.h"

#define SKIPPED 77
#define SIZES 75
#define KIB 1024

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static int64_t mapped(void) { return mx_load_relaxed(&mx_process_counters.reserved.current); }

static mx_arenas_t* arenas(void) { return &mx_subproc_main.arenas; }

// A thread that uses many sizes maps little of each one's page.
static void test_sizes(void) {
  mi_collect(true);
  void* blocks[SIZES];
  const int64_t before = mapped();
  for (size_t i = 0; i < SIZES; i++) {
    blocks[i] = mi_malloc(16 + i * 16);
    EXPECT(blocks[i] != NULL);
    memset(blocks[i], (int)i, 16 + i * 16);
  }
  EXPECT(mapped() - before < SIZES * (int64_t)(6 * KIB + mx_facts.os_page));
  for (size_t i = 0; i < SIZES; i++) {
    const unsigned char* const p = (const unsigned char*)blocks[i];
    EXPECT(p[0] == i && p[15 + i * 16] == i);
    mi_free(blocks[i]);
  }
  mi_collect(true);
  EXPECT(mapped() <= before);
}

// Pages of larger blocks that are empty go when others are wanted.
static void test_larger(void) {
  mi_collect(true);
  const int64_t before = mapped();
  for (size_t size = 10 * KIB; size < 400 * KIB; size += size / 3) {
    char* const p = (char*)mi_malloc(size);
    memset(p, 1, size);
    mi_free(p);
    EXPECT(mapped() - before < (int64_t)(size + 3 * MX_SLICE_SIZE));
  }
}

static bool take(size_t count, bool is_carved, mx_slices_t* got) {
  const mx_slices_request_t request = {count, count, 1, NULL, -1, false, is_carved};
  return mx_slices_alloc(arenas(), &request, got);
}

static bool use(const mx_slices_t* run, size_t from, size_t size) {
  if (!mx_arena_reach(run->arena, run->start + from, size)) return false;
  mx_arena_touch(run->arena, run->start + from, size);
  memset(run->start + from, 7, size);
  return true;
}

// Fresh slices, with nothing mapped of them.
static bool take_fresh(size_t count, mx_slices_t* run) {
  mx_arenas_unmap_free(arenas());
  if (!take(count, true, run)) return false;
  EXPECT(mx_bits_count(run->arena->committed, run->index, count) == 0);
  return true;
}

static void test_parts(void) {
  const size_t unit = mx_facts.os_page;
  mx_slices_t run;
  if (!take_fresh(2, &run)) return;
  const int64_t before = mapped();
  EXPECT(use(&run, 0, 1) && mapped() - before == (int64_t)unit);
  EXPECT(use(&run, 0, unit) && mapped() - before == (int64_t)unit);
  EXPECT(use(&run, unit - 1, 2 * unit) && mapped() - before == (int64_t)(3 * unit));
  // Across the two slices; a hole in between; and over all of it.
  EXPECT(use(&run, MX_SLICE_SIZE - unit, 2 * unit) && mapped() - before == (int64_t)(5 * unit));
  EXPECT(mx_arena_discard(run.arena, run.start + unit, 2 * unit) == 2 * unit);
  EXPECT(mapped() - before == (int64_t)(3 * unit));
  EXPECT(use(&run, 0, 2 * MX_SLICE_SIZE) && mapped() - before == (int64_t)(2 * MX_SLICE_SIZE));
  EXPECT(mx_arena_is_present(run.arena, run.start, 2 * MX_SLICE_SIZE));
  mx_slices_free(arenas(), run.arena, run.index, 1);
  EXPECT(mapped() - before == (int64_t)MX_SLICE_SIZE);
  EXPECT(run.start[MX_SLICE_SIZE] == 7 && run.start[2 * MX_SLICE_SIZE - 1] == 7);
  mx_slices_free(arenas(), run.arena, run.index + 1, 1);
  EXPECT(mapped() == before);
  EXPECT(mx_bits_count(run.arena->dirty, run.index, 2) == 0);
}

// One slice is committed, the one behind it is mapped in part.
static void test_mixed(void) {
  const size_t unit = mx_facts.os_page;
  mx_slices_t run;
  if (!take_fresh(2, &run)) return;
  bool is_zero;
  EXPECT(mx_arena_commit(arenas(), run.arena, run.index, 1, &is_zero) == MX_COMMIT_DONE);
  const int64_t before = mapped();
  EXPECT(use(&run, MX_SLICE_SIZE - 2 * unit, 4 * unit) && mapped() - before == (int64_t)(2 * unit));
  EXPECT(mx_arena_discard(run.arena, run.start + MX_SLICE_SIZE - unit, 2 * unit) == unit);
  EXPECT(mapped() - before == (int64_t)unit);
  EXPECT(run.start[MX_SLICE_SIZE - unit] == 7 && run.start[MX_SLICE_SIZE + unit] == 7);
  EXPECT(mx_arena_discard(run.arena, run.start + MX_SLICE_SIZE - unit, unit) == unit);
  EXPECT(run.start[MX_SLICE_SIZE - unit] == 0 && mapped() - before == (int64_t)unit);
  mx_slices_free(arenas(), run.arena, run.index, 2);
  EXPECT(mx_bits_test(run.arena->dirty, run.index) && !mx_bits_test(run.arena->dirty, run.index + 1));
  EXPECT(mapped() == before);
}

// Somebody else's memory in a slice: what lies in front of it serves, and it stays.
static void test_taken(void) {
  const size_t unit = mx_facts.os_page;
  mx_slices_t run;
  if (!take_fresh(1, &run)) return;
  EXPECT(use(&run, 0, unit));
  char* const other = (char*)mx_os_map(run.start + 3 * unit, unit, true);
  if (other != (char*)run.start + 3 * unit) return;
  *other = 9;
  const int64_t before = mapped();
  EXPECT(!use(&run, unit, 4 * unit));
  EXPECT(use(&run, unit, 2 * unit));
  EXPECT(mapped() - before == (int64_t)(2 * unit));
  mx_slices_free(arenas(), run.arena, run.index, 1);
  EXPECT(*other == 9 && mapped() - before == -(int64_t)unit);
  mx_os_unmap(other, unit);
}

#if defined(__linux__)
static void limit(rlim_t bytes) {
  struct rlimit limits;
  getrlimit(RLIMIT_AS, &limits);
  limits.rlim_cur = bytes;
  setrlimit(RLIMIT_AS, &limits);
}

// A limit that is set later is found when it is met, and that it is gone when something is refused.
static void test_limits(void) {
  mx_store_relaxed(&mx_os_scarce, false);
  limit(64 * KIB);
  EXPECT(mx_os_map(NULL, MX_MIB, true) == NULL);
  EXPECT(mx_os_is_scarce());
  limit(RLIM_INFINITY);
  EXPECT(mx_os_map(NULL, SIZE_MAX / 2 + 1, true) == NULL);
  EXPECT(!mx_os_is_scarce());
}
#endif

// A page whose next part was refused is tried once more where there may be room, and is done with
// only when that fails, too.
static void test_growth(void) {
  bool is_zero;
  mi_heap_t* const heap = mi_heap_new();
  void* const first = mi_heap_malloc(heap, 100);
  mx_page_t* const page = page_of(first);
  while (page->free != NULL && mi_heap_malloc(heap, 100) != NULL) {}
  const uint32_t before = page->capacity;
  EXPECT(mx_page_can_extend(page));
  EXPECT(mx_page_extend_scarce((mx_heap_t*)(void*)heap, page, &is_zero));
  EXPECT(page->capacity > before && page->free != NULL && page->is_final == 0);
  page->is_final = 1;
  EXPECT(!mx_page_extend_scarce((mx_heap_t*)(void*)heap, page, &is_zero));
  page->is_final = 0;
  mi_heap_destroy(heap);
}

// Free slices go for the next part, for which the page takes the slices that it needs.
static void test_growth_over_slices(void) {
  bool is_zero;
  mx_slices_t run;
  mi_heap_t* const heap = mi_heap_new();
  const mx_page_t* page = NULL;
  do page = page_of(mi_heap_malloc(heap, 20 * KIB));
  while (page->free != NULL || (page->capacity + 1) * page->block_size <= mx_page_size(page));
  const uint32_t slices = page->slice_count;
  EXPECT(mx_page_can_extend(page) && take(1, false, &run));
  mx_arena_touch(run.arena, run.start, MX_SLICE_SIZE);
  mx_slices_free(arenas(), run.arena, run.index, 1);
  EXPECT(mx_bits_test(run.arena->committed, run.index));
  EXPECT(mx_page_extend_scarce((mx_heap_t*)(void*)heap, (mx_page_t*)(uintptr_t)page, &is_zero));
  EXPECT(page->free != NULL && (MX_SCATTER || page->slice_count == slices + 1));
  EXPECT(!mx_bits_test(run.arena->committed, run.index));
  mi_heap_destroy(heap);
}

// Whoever makes a page keeps none that is empty.
static void test_no_empty_pages(void) {
  mi_heap_t* const heap = mi_heap_new();
  const intptr_t before = mx_load_relaxed(&arenas()->in_use);
  for (size_t size = 16; size <= 16 * KIB; size *= 2) {
    void* const p = mi_heap_malloc(heap, size);
    const mx_page_t* const page = page_of(p);
    EXPECT(mx_load_relaxed(&arenas()->in_use) == before + (intptr_t)page->slice_count);
    mi_free(p);
  }
  mi_heap_destroy(heap);
}

int main(void) {
  mi_free(mi_malloc(100));
  if (!MX_PARTS) return SKIPPED;
#if defined(__linux__)
  struct rlimit limits;
  if (getrlimit(RLIMIT_AS, &limits) != 0 || limits.rlim_max != RLIM_INFINITY) return SKIPPED;
  test_limits();
#endif
  mx_store_relaxed(&mx_os_scarce, true);
  const mx_arena_t* const arena = mx_arena_at(arenas(), 0);
  if (arena == NULL || arena->is_reserved) return SKIPPED;
  test_growth();
  test_no_empty_pages();
  test_growth_over_slices();
  test_parts();
  test_mixed();
  test_taken();
  if (!MX_SCATTER) {
    test_sizes();
    test_larger();
  }
  printf("%d failures\n", failures);
  return failures != 0;
}
