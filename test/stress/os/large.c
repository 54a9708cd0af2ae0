// SPDX-License-Identifier: MIT
// Large OS pages that a heap grows by, on a system that says what it was asked: which heaps grow by
// them, which are filled, which stay samples, and what goes back of those that nobody had.
#include "../stress.h"

#include "arena/arena.h"
#include "base/options.h"
#include "mem/vmem.h"
#include "mimalloc.h"
#include "mock_os.h"
#include "os/os.h"
#include "page/page.h"

#define EVERY 16  // large OS pages, of which one is a sample
#define SHARE 32  // of what is present is more than one of them

static mx_arenas_t mine;
static mx_arena_t* arena;

static size_t large_size(void) { return mx_facts.large_page; }
static size_t large(void) { return large_size() / MX_SLICE_SIZE; }

static mx_slices_t take(size_t count) {
  mx_slices_t got;
  const mx_slices_request_t request = {count, count, 1, arena, -1, false, false};
  check(mx_slices_alloc(&mine, &request, &got));
  return got;
}

static void set_present(int64_t bytes) {
  mx_store_relaxed(&mx_process_counters.committed.current, bytes);
}

static int64_t present(void) { return mx_load_relaxed(&mx_process_counters.committed.current); }

// ---- which heaps -------------------------------------------------------------------------------

static bool grows(size_t count) { return mx_arena_grows_by_large(arena, count); }

static void test_who(void) {
  const int64_t enough = (int64_t)(SHARE * large_size());
  const size_t page = mx_facts.large_page;
  set_present(enough - 1);
  check(!grows(1));
  set_present(enough);
  check(grows(1) && grows(MX_MEDIUM_PAGE_SLICES) && !grows(MX_MEDIUM_PAGE_SLICES + 1));
  mi_option_set(mi_option_allow_thp, 0);
  check(!grows(1));
  mi_option_set(mi_option_allow_thp, 2);
  check(!grows(1));
  mi_option_set(mi_option_allow_thp, 1);
  mx_facts.large_page = 0;
  check(!grows(1));
  mx_facts.large_page = page;
  mx_store_relaxed(&mx_os_scarce, true);
  check(!grows(1));
  mx_store_relaxed(&mx_os_scarce, false);
  arena->is_reserved = true;
  check(!grows(1));
  arena->is_reserved = false;
  // Near a limit it does not: an eighth of that is left free.
  mx_store_relaxed(&mx_memory_limit.bytes, ((size_t)enough + page) / 7 * 8 + 64);
  check(grows(1));
  mx_store_relaxed(&mx_memory_limit.bytes, ((size_t)enough + page) / 7 * 8 - 64);
  check(!grows(1));
  mx_store_relaxed(&mx_memory_limit.bytes, (size_t)0);
}

// ---- which -------------------------------------------------------------------------------------

static void fill(size_t k, size_t from, size_t end) {
  mx_arena_untouch(arena, mx_arena_slice(arena, k * large()), large_size());
  mx_arena_fill_large(arena, from, end);
}

// Of large OS page k of the arena, whether it was filled, was told to have none, or neither.
static void expect(size_t k, bool fills, bool refuses, const void* sample) {
  uint8_t* const p = mx_arena_slice(arena, k * large());
  fill(k, k * large(), (k + 1) * large());
  const mock_told_t told = mock_told();
  check(told.filled == (fills ? p : NULL) && told.refused == (refuses ? p : NULL));
  check(told.looked_at == sample && told.quarters == (sample != NULL ? 3 : 0));
  check(mx_arena_is_present(arena, p, large_size()) == fills);
}

// The arena begins with a sample, or behind one.
static void test_which(size_t skipped) {
  const size_t room = 4 * EVERY * large_size();
  uint8_t* const p = (uint8_t*)mx_vmem_map(room, EVERY * large_size(), false);
  mx_arena_config_t config = mx_arena_config(p + skipped * large_size(), room - skipped * large_size());
  config.is_owned = false;
  arena = mx_arena_add(&mine, &config);
  check(p != NULL && arena != NULL);
  take(arena->slices);
  mock_told();
  for (size_t n = skipped; n < 4 * EVERY; n++) {  // counted as if it began with a sample
    const size_t k = n - skipped, of = (n < 2 ? 0 : (n - 2) / EVERY * EVERY);
    const bool has_sample = (n >= 2 && of >= skipped);
    const uint8_t* const sample = (has_sample ? p + of * large_size() : NULL);
    mock_fill(true, false);
    expect(k, has_sample && n % EVERY != 0, has_sample && n % EVERY == 0, sample);
    mock_fill(true, true);
    expect(k, false, false, sample);
    if (!has_sample) continue;
    mx_bits_clear(arena->committed, (of - skipped) * large() + large() / 2, 1);
    mock_fill(true, false);
    expect(k, false, false, NULL);
    mx_bits_set(arena->committed, (of - skipped) * large() + large() / 2, 1);
  }
  // The first that begins in the run, if the run has all of it; what the system refused is not there.
  const size_t k = EVERY + 4;
  const uint8_t* const at = mx_arena_slice(arena, k * large());
  mock_fill(true, false);
  fill(k, (k - 1) * large() + 1, (k + 1) * large());
  check(mock_told().filled == at && mx_arena_is_present(arena, at, large_size()));
  fill(k, (k - 1) * large() + 1, (k + 1) * large() - 1);
  check(mock_told().filled == NULL);
  mock_fill(false, false);
  fill(k, k * large(), (k + 2) * large());
  check(mock_told().filled == at && !mx_arena_is_present(arena, at, MX_SLICE_SIZE));
  mx_arenas_destroy(&mine);
  mx_vmem_unmap(p, room, 0);
}

// ---- what goes back ----------------------------------------------------------------------------

static bool is_there(size_t i) {
  const size_t bits = mx_arena_bits_per_slice();
  const size_t count = mx_bits_count(arena->present, i * bits, bits);
  check(count == 0 || count == bits);
  return count != 0;
}

// A heap that grows slice by slice has its large OS pages from their first slices on.
static size_t grow_to_filled(void) {
  for (;;) {
    const mx_slices_t got = take(1);
    const size_t end = mx_arena_large_end(arena, got.index + 1);
    if (mock_told().filled == NULL) continue;
    check(mx_bits_count(arena->committed, 0, end) == end);
    return got.index;
  }
}

static void test_growth(void) {
  set_present((int64_t)(SHARE * large_size()));
  mock_fill(true, false);
  mock_told();
  const size_t first = grow_to_filled(), end = first + large();
  check(((uintptr_t)arena->start / MX_SLICE_SIZE + first) % large() == 0);
  for (size_t i = first; i < end; i++) check(is_there(i));
  for (size_t i = 1; i <= 3; i++) {
    const mx_slices_t used = take(1);
    check(used.index == first + i && used.is_zero);
  }
  // What was used, or is not there as a whole, stays.
  mx_slices_free(&mine, arena, first, 1);
  mx_arena_untouch(arena, mx_arena_slice(arena, end - 2), mx_facts.os_page);
  memset(mx_arena_slice(arena, first + 1), 7, 3 * MX_SLICE_SIZE);
  const int64_t before = present();
  arena->is_reserved = true;
  mx_arena_drop_fresh(arena);
  arena->is_reserved = false;
  check(present() == before);
  mx_arena_drop_fresh(arena);
  for (size_t i = first; i < end; i++) check(i == end - 2 || is_there(i) == (i < first + 4));
  check(present() == before - (int64_t)((large() - 5) * MX_SLICE_SIZE));
  check(mx_bits_test(arena->dirty, first) && mx_arena_slice(arena, first + 1)[0] == 7);
  check(mx_bits_count(arena->free, first, large()) == large() - 3);
}

// ---- huge blocks -------------------------------------------------------------------------------

// What two of a size were filled lets the next have large OS pages, wherever it lies.
static void test_huge(void) {
  const size_t size = 3 * large_size();
  for (int i = 0; i < 2; i++) {
    void* const p = mi_malloc(size);
    mi_free(memset(p, 1, size));
    mi_collect(true);
  }
  mock_told();
  void* const p = mi_malloc(size);
  check(mock_told().advised == mx_page_first(mx_pagemap_get(p)));
  mi_free(p);
}

// Where they are to be kept away, all memory is told so, whether the system gives any of 2 MiB or not:
// there are smaller ones, of which it was not asked. That of a block that grows where it is, too.
static void test_kept_away(void) {
  const size_t step = 48 * large_size();
  mi_option_set(mi_option_allow_thp, 0);
  mock_told();
  uint8_t* p = NULL;
  for (size_t n = 1; n <= 4; n++) {
    uint8_t* const grown = (uint8_t*)mi_realloc(p, n * step);
    const uint8_t* const refused = (const uint8_t*)mock_told().refused;
    check(grown != NULL && refused != NULL && refused < grown + n * step);
    check(refused >= (grown == p ? p + (n - 1) * step : mx_page_first(mx_pagemap_get(grown))));
    p = grown;
  }
  mi_free(p);
  mi_option_set(mi_option_allow_thp, 1);
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  mi_option_set(mi_option_max_warnings, 0);
  mi_option_set(mi_option_purge_delay, 100000);
  mi_free(mi_malloc(100));
  if (!MX_PIECEWISE || large() < MX_MEDIUM_PAGE_SLICES || mx_os_is_scarce()) return 77;
  mi_option_set(mi_option_allow_thp, 1);
  test_huge();
  test_kept_away();
  arena = mx_arena_reserve(&mine, 1, -1);
  check(arena != NULL && !arena->is_reserved);
  if (MX_SCATTER) {
    set_present(INT64_MAX);
    check(!grows(1));
    return 0;
  }
  const int64_t before = present();
  test_who();
  test_growth();
  mx_arenas_destroy(&mine);
  test_which(0);
  test_which(1);
  set_present(before);
  printf("ok\n");
  return 0;
}
