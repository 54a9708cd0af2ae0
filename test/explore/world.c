// SPDX-License-Identifier: MIT
// The world of the heap scenarios: see world.h.
#include "../../src/heap/heap_record.h"
#include "../../src/heap/thread_life.h"
#include "../../src/heap/transfer.h"
#include "world.h"

static mx_arena_t* arena;

mx_arena_t* world_arena(void) { return arena; }

static void on_message(mx_level_t level, int code, const char* format, ...) {
  if (level == MX_ERROR && code != 12 /* ENOMEM */) ex_fail("error reported: %s", format);
}

void world_start(size_t slices) {
  ex_thread_variable(&mx_tls_theap, sizeof(mx_tls_theap));
  ex_thread_variable(&mx_tls_last, sizeof(mx_tls_last));
  ex_thread_variable(&mx_tls_has_ended, sizeof(mx_tls_has_ended));
  ex_quiet(&mx_process_counters, sizeof(mx_process_counters));
  ex_quiet(&mx_subproc_main.counters, sizeof(mx_counters_t));
  ex_quiet(&mx_subproc_main.main_heap.counters, sizeof(mx_counters_t));
  mx_hooks.message = on_message;
  world_park(0);
  world_refuse_pages(false);
  mx_transfer_most = 0;
  ex_check(mx_heap_start());
  // The chunk that threads cut their records from: the first theap needs none, and they cannot map it.
  ex_check(mx_meta_alloc(MX_CACHE_LINE) != NULL);
  ex_check(slices <= WORLD_MEMORY / MX_SLICE_SIZE);
  mx_arena_config_t config = mx_arena_config(world_memory, slices * MX_SLICE_SIZE);
  config.is_committed = true;
  config.is_owned = false;
  arena = mx_arena_add(&mx_subproc_main.arenas, &config);
  ex_check(arena != NULL);
}

void world_refuse_pages(bool refuse) {
  mx_store_relaxed(&mx_option_values[mx_opt_page_reclaim_on_free], refuse ? -1 : 0);
}

void world_park(long most) { mx_store_relaxed(&mx_option_values[mx_opt_theap_retain], most); }

void* world_alloc(size_t size) {
  uint64_t* p = (uint64_t*)mx_alloc(size);
  if (p == NULL) ex_fail("out of memory");
  p[0] = p[1] = (uint64_t)ex_thread_id();
  return p;
}

void world_free(void* p, int thread) {
  const uint64_t* words = (const uint64_t*)p;
  const uint64_t mark = (uint64_t)(thread + 1) << 12;
  if (words[0] != mark || words[1] != mark) ex_fail("block %p is not thread %d's any more", p, thread);
  mx_free(p);
}

void world_end_thread(void) {
  if (mx_tls_theap->heap != NULL) mx_thread_done(mx_tls_theap->first);
}

static void check_listed(void) {
  for (size_t bin = 1; bin < MX_BIN_COUNT; bin++) {
    const size_t bits = mx_bits_count(mx_arena_abandoned(arena, bin), 0, arena->slices);
    const size_t counted = mx_load_relaxed(&mx_subproc_main.listed[bin]);
    if (bits != counted) ex_fail("%zu pages are listed in bin %zu, %zu are counted", bits, bin, counted);
  }
}

// Every abandoned page with free blocks can be found by its bit.
static void check_reachable(void) {
  for (size_t i = 0; i < arena->slices; i++) {
    mx_page_t* page = mx_arena_record(arena, i);
    if (mx_pagemap_get(arena->start + i * MX_SLICE_SIZE) != page) continue;
    if ((mx_load_relaxed(&page->remote) & 1) != 0 || mx_page_is_huge(page)) continue;
    if (!mx_heap_is_main(page->heap) || !mx_page_has_free(page)) continue;
    if (!mx_bits_test(mx_arena_abandoned(arena, page->bin), i)) {
      ex_fail("the abandoned page %zu has free blocks, but nobody can find it", i);
    }
  }
}

void world_audit(void* const* blocks, const int* owners, size_t count) {
  check_listed();
  check_reachable();
  for (size_t i = 0; i < count; i++) {
    if (blocks[i] != NULL) world_free(blocks[i], owners[i]);
  }
  world_park(0);
  mx_parked_give_up(&mx_subproc_main, true);
  for (int i = EX_THREADS - 1; i >= 0; i--) {
    ex_become(i);
    world_end_thread();
  }
  ex_become(0);
  check_listed();
  mx_arenas_t* arenas = &mx_subproc_main.arenas;
  const size_t n = arena->slices;
  mx_huge_cache_flush(true);
  mx_transfer_flush(true);
  mx_heap_release_cached(&mx_subproc_main);  // what records of heaps that are gone keep
  if (mx_load_relaxed(&arenas->in_use) != 0) {
    ex_fail("%ld slices are lost", (long)mx_load_relaxed(&arenas->in_use));
  }
  ex_check(mx_bits_count(arena->free, 0, n) == n);
  ex_check(mx_load_relaxed(&arena->free_slices) == n);
  ex_check(mx_bits_count(arena->purgeable, 0, n) == (size_t)mx_load_relaxed(&arenas->purgeable));
  ex_check(mx_subproc_main.main_heap.theaps == NULL);
}
