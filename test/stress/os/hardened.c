// SPDX-License-Identifier: MIT
// What else may be refused: memory for heaps with addresses of their own, for blocks of no bytes, for
// large blocks away from arenas and in them, for records; guards that do not go away. A request answers
// NULL then, blocks stay as they were, and all works again when the system has memory.
#include "../stress.h"

#include <errno.h>

#include "alloc/harden.h"
#include "arena/arena.h"
#include "heap/heap.h"
#include "mem/vmem.h"
#include "mimalloc.h"
#include "mock_os.h"
#include "os/os.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define LARGE (600 * KIB)  // of a page of its own in all builds

static int errors;

static void on_error(int code, void* arg) {
  (void)arg;
  errors += (code != ENOMEM);
}

static int64_t committed(void) { return mx_load_relaxed(&mx_process_counters.committed.current); }

// Nothing more may be committed.
static void limit(bool is_on) {
  mx_store_relaxed(&mx_memory_limit.is_hard, is_on);
  mx_store_relaxed(&mx_memory_limit.bytes, is_on ? (size_t)committed() : 0);
}

static bool is_refused(void* p) {
  const bool is = (p == NULL && errno == ENOMEM);
  mi_free(p);
  errno = 0;
  return is;
}

static void sign(void* p, size_t size) {
  ((unsigned char*)p)[0] = ((unsigned char*)p)[size / 2] = ((unsigned char*)p)[size - 1] = 0x5A;
}

static bool is_signed(const void* p, size_t size) {
  const unsigned char* const b = (const unsigned char*)p;
  return b[0] == 0x5A && b[size / 2] == 0x5A && b[size - 1] == 0x5A;
}

// ---- heaps with addresses of their own -----------------------------------------------------------

// How many slices the heap counts as its own in use.
static size_t slices_counted(const mi_heap_t* heap) {
  size_t refs = 0;
  const mx_partition_t* const partition = &((const mx_heap_t*)heap)->partition;
  for (const mx_plot_t* p = mx_load_acquire(&partition->plots); p != NULL; p = p->next) {
    refs += mx_load_relaxed(&p->refs);
  }
  return refs;
}

static void own_addresses(void) {
  mi_heap_t* const heap = mi_heap_new();
  check(heap != NULL);
  if (MX_ISOLATE) {
    mi_option_set(mi_option_disallow_os_alloc, 1);  // there is no arena for such heaps yet
    check(is_refused(mi_heap_malloc(heap, 100)));
    check(is_refused(mi_heap_malloc(heap, LARGE)));
    mi_option_set(mi_option_disallow_os_alloc, 0);
    mock_fail_all();
    check(is_refused(mi_heap_malloc(heap, 100)));
    mock_heal();
  }
  void* const p = mi_heap_malloc(heap, 100);
  check(p != NULL);
  const size_t counted = slices_counted(heap);
  limit(true);
  check(is_refused(mi_heap_malloc(heap, 3000)));
  check(is_refused(mi_heap_malloc(heap, LARGE)));
  limit(false);
  if (MX_ISOLATE) {  // others have slices at hand
    mock_fail_all();
    check(is_refused(mi_heap_malloc(heap, 3000)));
    mock_heal();
    check(slices_counted(heap) == counted);
  }
  check(mi_heap_malloc(heap, 3000) != NULL && mi_heap_malloc(heap, LARGE) != NULL);
  mi_heap_destroy(heap);
}

// ---- blocks of no bytes --------------------------------------------------------------------------

static void no_bytes(void) {
  if (!MX_ZERO_BLOCKS) return;
  limit(true);
  void* last = mi_malloc(0);
  for (void* p = last; p != NULL; p = mi_malloc(0)) last = p;
  check(errno == ENOMEM && is_refused(mi_malloc_aligned(0, 64)));
  limit(false);
  const intptr_t in_use = mx_load_relaxed(&mx_subproc_main.arenas.in_use);
  mock_protect_fails(true);
  check(is_refused(mi_malloc(0)));
  mock_protect_fails(false);
  check(mx_load_relaxed(&mx_subproc_main.arenas.in_use) == in_use);
  if (last == NULL) last = mi_malloc(0);
  check(last != NULL);
  // A place that is free waits while there are others.
  void* const first = mi_malloc(0);
  mi_free(first);
  void* const next = mi_malloc(0);
  check(next != NULL && next != first);
  mi_free(next);
  errors = 0;
  mx_zero_sized_free(mx_pagemap_get(last), last);
  mx_zero_sized_free(mx_pagemap_get(last), last);  // as two threads may at once
  check(errors == 1);
}

// ---- large blocks --------------------------------------------------------------------------------

static void large_blocks(void) {
  void* const p = mi_malloc(LARGE);
  check(p != NULL);
  sign(p, LARGE);
  limit(true);
  check(is_refused(mi_malloc(2 * LARGE)));
  check(is_refused(mi_malloc_aligned_at(2 * LARGE, 64, 8)));
  check(mi_realloc(p, 50 * LARGE) == NULL && is_signed(p, LARGE));
  limit(false);
  check(mi_malloc_aligned_at(LARGE, 2 * MX_SLICE_SIZE, 8) == NULL);
  mi_free(p);
}

// One that grows for long has a mapping of its own.
static void growing(void) {
  size_t size = 16 * MIB;
  void* p = mi_malloc(size);
  for (; p != NULL && size < 128 * MIB; size *= 2) {
    sign(p, size);
    p = mi_realloc(p, 2 * size);
    check(p != NULL && is_signed(p, size));
  }
  sign(p, size);
  limit(true);
  check(mi_realloc(p, 2 * size) == NULL && is_signed(p, size));
  limit(false);
  mock_fail_next();
  void* const q = mi_realloc(p, 2 * size);
  mock_heal();
  check(is_signed(q == NULL ? p : q, size));
  mi_free(q == NULL ? p : q);
}

// In hardened builds large blocks lie in arenas only where they must.
static void in_arenas(void) {
  mi_option_set(mi_option_disallow_os_alloc, 1);
  unsigned char* p = (unsigned char*)mi_malloc(LARGE);
  check(p != NULL && mx_pagemap_get(p)->arena != NULL && mi_usable_size(p) >= LARGE);
  sign(p, LARGE);
  p = (unsigned char*)mi_realloc(p, LARGE + 100);
  check(p != NULL && is_signed(p, LARGE));
  p = (unsigned char*)mi_realloc(p, LARGE - 100 * KIB);
  sign(p, LARGE - 100 * KIB);
  void* const behind = mi_malloc(LARGE);
  p = (unsigned char*)mi_realloc(p, 4 * LARGE);  // moves
  check(p != NULL && behind != NULL && is_signed(p, LARGE - 100 * KIB));
  p = (unsigned char*)mi_rezalloc(p, 5 * LARGE + 8);
  check(p != NULL && p[5 * LARGE - 1] == 0 && p[5 * LARGE + 7] == 0);
  if (MX_PADDING) {
    errors = 0;
    p[5 * LARGE + 8] = 1;
    check(mi_realloc(p, 5 * LARGE + 7) != NULL || errors > 0);
  }
  for (int is_long = 0; is_long < 2; is_long++) {
    errors = 0;
    unsigned char* const q = (unsigned char*)mi_malloc(LARGE - 100);
    const size_t end = (is_long ? mx_pagemap_get(q)->block_size : LARGE - 99);
    if (MX_CHECK_END) memset(q + LARGE - 100, 0x77, end - (LARGE - 100));
    mi_free(q);
    check(errors == (MX_CHECK_END ? 1 : 0));
  }
  if (!MX_PADDING) mi_free(p);
  mi_free(behind);
  mi_option_set(mi_option_disallow_os_alloc, 0);
}

// The target of a move is lost, or memory is short of addresses.
static void torn(void) {
  mi_option_set(mi_option_disallow_os_alloc, 1);
  mi_option_set(mi_option_purge_delay, 0);  // where a block moves to nothing is present
  mi_collect(true);
  for (int k = 0; k < 24; k++) {
    const bool is_scarce = mx_os_is_scarce();
    if (k % 3 == 2) mx_store_relaxed(&mx_os_scarce, true);
    void* const p = mi_malloc(LARGE);
    void* const behind = mi_malloc(LARGE);
    check(p != NULL && behind != NULL);
    sign(p, LARGE);
    mock_fault(k % 6 == 0 ? "taken" : k % 6 == 3 ? "torn" : "plain");
    if (k % 3 == 0) mock_fail_after(k / 3);
    void* const q = mi_realloc(p, LARGE + LARGE / 8 + (k % 3 == 2 ? 0 : (size_t)k * 64 * KIB));
    mock_heal();
    mock_fault("plain");
    check(is_signed(q == NULL ? p : q, LARGE));
    mi_free(q == NULL ? p : q);
    mi_free(behind);
    mx_store_relaxed(&mx_os_scarce, is_scarce);
  }
  check(mock_others_are_whole());
  mi_option_set(mi_option_purge_delay, 1000);
  mi_option_set(mi_option_disallow_os_alloc, 0);
}

// A guard that stays takes the slices with it, and nothing else.
static void guards_that_stay(void) {
  if (!MX_GUARD_PAGES) return;
  mi_option_set(mi_option_disallow_os_alloc, 1);
  for (long others = 0; others < 6; others++) {
    void* const p = mi_malloc(LARGE);
    void* const behind = mi_malloc(LARGE);
    check(p != NULL && behind != NULL);
    sign(p, LARGE);
    mock_guards_stay(others);
    void* const q = mi_realloc(p, 4 * LARGE);
    check(is_signed(q == NULL ? p : q, LARGE));
    mi_free(q == NULL ? p : q);
    mi_free(behind);
    mi_free(mi_malloc(2 * LARGE));
    mock_guards_stay(-1);
  }
  // Where pages of blocks were, their guards are.
  enum { PAGES = 200 };
  void* blocks[PAGES];
  for (int i = 0; i < PAGES; i++) blocks[i] = mi_malloc(100 * KIB);
  for (int i = 0; i < PAGES; i++) mi_free(blocks[i]);
  mi_collect(false);
  mock_guards_stay(0);
  for (int i = 0; i < 50; i++) mi_free(mi_malloc(MIB));
  mock_guards_stay(-1);
  for (int i = 0; i < 50; i++) {
    void* const p = mi_malloc(MIB);
    check(p != NULL);
    sign(p, MIB);
    mi_free(p);
  }
  mi_option_set(mi_option_disallow_os_alloc, 0);
}

// ---- large and huge OS pages ---------------------------------------------------------------------

static void large_os_pages(void) {
  mx_arenas_t* const arenas = &mx_subproc_main.arenas;
  check(mx_arena_reserve_large_pages(arenas, SIZE_MAX - 5, false) == NULL);
  if (!MX_64BIT) return;
  mock_large(0, 0, false);
  check(mx_arena_reserve_huge_pages(arenas, (size_t)1 << 14, -1, 0, false) == NULL);
  check(mx_arena_reserve_huge_pages(arenas, (size_t)1 << 26, -1, 0, false) == NULL);
  const int64_t reserved = mx_load_relaxed(&mx_process_counters.reserved.current);
  mock_large(2, 0, false);
  mock_fail_after(2);  // the arena's records
  check(mx_arena_reserve_huge_pages(arenas, 2, -1, 0, false) == NULL);
  mock_heal();
  check(mx_load_relaxed(&mx_process_counters.reserved.current) == reserved);
  mock_large(1, 0, true);  // elsewhere than asked
  mx_arena_t* const large = mx_arena_reserve_large_pages(arenas, 64 * MIB, false);
  check(large != NULL && large->is_pinned);
  // Arenas of them, where the option says so, as long as there are any.
  static mx_arenas_t mine;
  mx_slices_t got;
  const mx_slices_request_t request = {4, 4, 1, NULL, -1, false, false};
  mi_option_set(mi_option_allow_large_os_pages, 1);
  mock_large(1, 0, false);
  check(mx_slices_alloc(&mine, &request, &got) && got.arena->is_pinned);
  mx_arenas_destroy(&mine);
  mock_large(0, 0, false);
  check(mx_slices_alloc(&mine, &request, &got) && !got.arena->is_pinned);
  mx_arenas_destroy(&mine);
  mi_option_set(mi_option_disallow_arena_alloc, 1);
  check(mx_slices_alloc(&mine, &request, &got));
  mx_arenas_destroy(&mine);
  mi_option_set(mi_option_disallow_arena_alloc, 0);
  mi_option_set(mi_option_allow_large_os_pages, 0);
  mock_large(-1, 0, false);
}

// Where addresses are scarce slices are mapped in part, and an arena of such goes.
static void parts_that_go(void) {
  static mx_arenas_t mine;
  mx_slices_t got;
  const bool is_scarce = mx_os_is_scarce();
  const int64_t reserved = mx_load_relaxed(&mx_process_counters.reserved.current);
  mx_store_relaxed(&mx_os_scarce, true);
  const mx_slices_request_t request = {1, 1, 1, NULL, -1, false, true};
  check(mx_slices_alloc(&mine, &request, &got));
  check(!MX_PARTS || mx_load_relaxed(&got.arena->has_parts));
  mx_arenas_destroy(&mine);
  mx_store_relaxed(&mx_os_scarce, is_scarce);
  check(mx_load_relaxed(&mx_process_counters.reserved.current) == reserved);
}

// ---- records -------------------------------------------------------------------------------------

static void use_up_records(void) {
  mock_fail_all();
  for (size_t size = 4096; size >= 64; size /= 2) {
    while (mx_meta_alloc(size) != NULL) {
    }
  }
  mock_heal();
}

// No memory for metadata: the last test, as what is had of it is never given back.
static void no_records(void) {
  void* kept[8];
  for (int i = 0; i < 8; i++) kept[i] = mi_malloc(LARGE);
  enum { MORE = 64 };
  void *more[MORE], *others[MORE];
  // Each takes a record, until the next one has none.
  for (int i = 0; i < MORE; i++) {
    use_up_records();
    mock_fail_next();
    more[i] = mi_malloc(LARGE);
    mock_heal();
    others[i] = mi_malloc(LARGE);
    check(others[i] != NULL);
  }
  for (int i = 0; i < MORE; i++) {
    mi_free(more[i]);
    mi_free(others[i]);
  }
  use_up_records();
  mock_fail_all();
  check(mi_subproc_new().opaque == NULL);
  for (int i = 0; i < MORE; i++) {
    errno = 0;
    more[i] = mi_malloc(LARGE);
    check(more[i] != NULL || errno == ENOMEM);
  }
  if (MX_ZERO_BLOCKS) {
    for (size_t i = 0; mi_malloc(0) != NULL && i < 3 * MX_SLICE_SIZE / MX_ALIGN; i++) {
    }
  }
  mi_heap_t* const heap = mi_heap_new();
  if (heap != NULL) mi_heap_destroy(heap);
  mock_heal();
  for (int i = 0; i < MORE; i++) mi_free(more[i]);
  for (int i = 0; i < 8; i++) mi_free(kept[i]);
  void* const p = mi_malloc(LARGE);
  check(p != NULL);
  mi_free(p);
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  mi_option_set(mi_option_max_warnings, 0);
  mi_option_disable(mi_option_show_errors);
  mi_register_error(&on_error, NULL);
  mi_free(mi_malloc(100));
  own_addresses();
  no_bytes();
  large_blocks();
  growing();
  in_arenas();
  torn();
  guards_that_stay();
  large_os_pages();
  parts_that_go();
  no_records();
  printf("ok\n");
  return 0;
}
