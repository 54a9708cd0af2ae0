// SPDX-License-Identifier: MIT
// Slices when the system gives no memory: those that it gave before serve, and those behind them; a
// place that somebody else has taken ends its arena; what cannot be given back stays what it
// was. In arenas of a list of their own, of which nobody else takes.
#include "../stress.h"

#include "arena/arena.h"
#include "base/facts.h"
#include "base/options.h"
#include "mem/vmem.h"
#include "mimalloc.h"
#include "mock_os.h"
#include "os/os.h"

static mx_arenas_t mine;

static int64_t reserved(void) { return mx_load_relaxed(&mx_process_counters.reserved.current); }
static int64_t committed(void) { return mx_load_relaxed(&mx_process_counters.committed.current); }
static intptr_t purgeable(void) { return mx_load_relaxed(&mine.purgeable); }

static bool take_of(mx_arena_t* arena, size_t count, size_t align, mx_slices_t* got) {
  const mx_slices_request_t request = {count, count, align, arena, -1, false, false};
  return mx_slices_alloc(&mine, &request, got);
}

static void fill(const mx_slices_t* got, int value) {
  memset(got->start, value, got->count * MX_SLICE_SIZE);
  mx_arena_touch(got->arena, got->start, got->count * MX_SLICE_SIZE);
}

static void give_back(const mx_slices_t* got) {
  mx_slices_free(&mine, got->arena, got->index, got->count);
}

static bool is_all(const mx_slices_t* got, unsigned char value) {
  for (size_t i = 0; i < got->count * MX_SLICE_SIZE; i += 1024) {
    if (got->start[i] != value) return false;
  }
  return true;
}

// One whose addresses are mapped piece by piece.
static mx_arena_t* piecewise(void) {
  mi_option_set(mi_option_arena_reserve, 32 * 1024);
  mx_arena_t* const arena = mx_arena_reserve(&mine, 1, -1);
  check(arena != NULL);
  return arena;
}

// One that was mapped as a whole, and may not be accessed yet.
static mx_arena_t* whole(size_t slices) {
  const size_t size = slices * MX_SLICE_SIZE;
  void* const p = mx_vmem_map(size, MX_SLICE_SIZE, false);
  mx_arena_config_t config = mx_arena_config(p, size);
  mx_arena_t* const arena = mx_arena_add(&mine, &config);
  check(p != NULL && arena != NULL && arena->is_reserved);
  return arena;
}

// ---- more --------------------------------------------------------------------------------------

static void test_committed(void) {
  mx_slices_t first, got;
  mx_arena_t* const arena = piecewise();
  check(take_of(arena, 20, 1, &first));
  fill(&first, 3);
  give_back(&first);
  const int64_t before = reserved();
  // Nothing waits, so a fresh place is looked for first.
  mock_fail_all();
  check(take_of(arena, 20, 1, &got) && !got.is_zero);
  mock_heal();
  check(got.arena == arena && got.index == first.index && reserved() == before);
  check(MX_SCATTER || is_all(&got, 3));
  give_back(&got);
  mx_arenas_destroy(&mine);
}

// Of the records, which are mapped as they are wanted.
static size_t record_parts(const mx_arena_t* arena) {
  return mx_popcount(mx_load_relaxed(&arena->recorded));
}

static void test_joined(size_t align, bool is_held) {
  mx_slices_t first, got;
  mx_arena_t* const arena = piecewise();
  check(take_of(arena, 1, 1, &first));
  if (!is_held) give_back(&first);
  const size_t left = mx_load_relaxed(&arena->free_slices);
  const size_t ready = mx_bits_count(arena->committed, 0, arena->slices);
  const size_t parts = record_parts(arena);
  const int64_t before = reserved();
  mock_fail_all();
  const bool done = take_of(arena, 40, align, &got);
  mock_heal();
  check(done || align > 1);  // an aligned place may lie behind nothing
  if (done) {
    check(got.is_zero && is_all(&got, 0) && mx_is_aligned(got.start, align * MX_SLICE_SIZE));
    // It lies at or behind what was mapped before, and nothing else was.
    const size_t behind = mx_bits_count(arena->committed, 0, arena->slices) - ready;
    check(behind > 0 && behind < 48 && mx_bits_count(arena->committed, got.index, 40) == 40);
    const size_t records = (record_parts(arena) - parts) * (MX_PAGE_RECORD_STRIDE << arena->record_shift);
    check(reserved() == before + (int64_t)(behind * MX_SLICE_SIZE + records));
    fill(&got, 1);
    give_back(&got);
  }
  check(mx_load_relaxed(&arena->free_slices) == left);
  if (is_held) give_back(&first);
  mx_arenas_destroy(&mine);
}

// The most that there is behind what is mapped: no other arena would have more.
static void test_nothing(void) {
  mx_slices_t first, got;
  mx_arena_t* const arena = piecewise();
  const int64_t all = reserved();
  check(take_of(arena, 1, 1, &first));
  const size_t left = mx_load_relaxed(&arena->free_slices);
  mock_fail_all();
  check(!take_of(NULL, arena->slices + 1, 1, &got));
  check(!take_of(arena, arena->slices, 1, &got));
  mock_heal();
  check(mx_load_relaxed(&mine.count) == 1 && mx_load_relaxed(&arena->free_slices) == left);
  give_back(&first);
  mx_arenas_purge(&mine, true);
  check(reserved() <= all);
  mx_arenas_destroy(&mine);
}

// Of a run whose second half is refused the first half is free as it was, and waits.
static void test_half(void) {
  mx_slices_t got, more;
  mx_arena_t* const arena = whole(16);
  mi_option_set(mi_option_purge_delay, 100000);
  check(take_of(arena, 8, 1, &got));
  fill(&got, 5);
  give_back(&got);
  check(purgeable() == 8);
  mock_fail_all();
  check(!take_of(arena, 16, 1, &more));
  mock_heal();
  check(purgeable() == 8 && mx_load_relaxed(&arena->free_slices) == 16);
  check(mx_load_relaxed(&mine.in_use) == 0);
  check(take_of(arena, 16, 1, &more) && !more.is_zero);
  check(purgeable() == 0);
  check(is_all(&got, 5));
  give_back(&more);
  mi_option_set(mi_option_purge_delay, -1);
  mx_arenas_destroy(&mine);
}

// ---- places that are taken -----------------------------------------------------------------------

static void test_taken(void) {
  mx_slices_t first, got;
  mock_fault("taken");
  mx_arena_t* const arena = piecewise();
  check(take_of(arena, 1, 1, &first));
  mi_option_enable(mi_option_disallow_os_alloc);
  const size_t before = mx_load_relaxed(&arena->usable);
  check(before == arena->slices);
  // Somebody else lies where the next run was to be: it is had in front of that.
  mock_fail_next();
  check(take_of(arena, 30, 1, &got));
  mock_heal();
  const size_t usable = mx_load_relaxed(&arena->usable);
  check(usable < before && got.index + got.count <= usable);
  fill(&got, 9);
  check(mock_others_are_whole());
  // What lies behind that is nobody's any more.
  mx_slices_t more;
  while (take_of(arena, 30, 1, &more)) check(more.index + more.count <= usable);
  mock_fault("plain");
  mi_option_disable(mi_option_disallow_os_alloc);
  check(mock_others_are_whole() && is_all(&got, 9));
  mx_arenas_destroy(&mine);
}

// Only what was to be had beyond a request is somebody's: the request is served, and the arena ends
// behind it.
static void test_taken_behind(void) {
  mx_slices_t got;
  const size_t slices = 64, size = slices * MX_SLICE_SIZE;
  uint8_t* const p = (uint8_t*)mx_os_map(NULL, size + MX_SLICE_SIZE, true);
  uint8_t* const start = (uint8_t*)mx_align_up((uintptr_t)p, MX_SLICE_SIZE);
  mx_arena_config_t config = mx_arena_config(start, size);
  config.piece = MX_SLICE_SIZE;
  mx_arena_t* const arena = mx_arena_add(&mine, &config);
  check(arena != NULL && !arena->is_reserved);
  check(mx_os_unmap(start + MX_SLICE_SIZE, 2 * MX_SLICE_SIZE));  // all behind that is taken
  mi_option_enable(mi_option_disallow_os_alloc);
  mx_count_add(&mx_process_counters.reserved, (int64_t)MX_SLICE_SIZE);
  check(take_of(arena, 1, 1, &got));
  size_t had = 1;
  for (mx_slices_t more; take_of(arena, 1, 1, &more); had++) {
    check(more.start < start + 3 * MX_SLICE_SIZE);
  }
  check(had == (MX_SCATTER ? 3 : 2) && mx_load_relaxed(&arena->usable) == had);
  mi_option_disable(mi_option_disallow_os_alloc);
  mx_arenas_destroy(&mine);
}

// ---- less --------------------------------------------------------------------------------------

// What the system does not take stays present; what it takes later is gone then.
static void test_purge(void) {
  mx_slices_t got;
  mx_arena_t* const arena = whole(8);
  const int64_t before = committed();
  mi_option_set(mi_option_purge_delay, 100000);
  check(take_of(arena, 8, 1, &got));
  fill(&got, 4);
  give_back(&got);
  check(purgeable() == 8 && committed() == before + (int64_t)(8 * MX_SLICE_SIZE));
  mock_fail_all();
  mx_arenas_purge(&mine, true);
  mock_heal();
  check(purgeable() == 0 && committed() == before + (int64_t)(8 * MX_SLICE_SIZE));
  check(mx_bits_count(arena->dirty, 0, 8) == 8 && mx_bits_count(arena->committed, 0, 8) == 8);
  check(take_of(arena, 8, 1, &got) && !got.is_zero && is_all(&got, 4));
  give_back(&got);
  // Where dropping contents fails, as of locked memory, giving up the access serves.
  mock_fail_next();
  mx_arenas_purge(&mine, true);
  mock_heal();
  check(committed() == before && mx_bits_count(arena->committed, 0, 8) == 0);
  check(take_of(arena, 8, 1, &got) && got.is_zero && is_all(&got, 0));
  give_back(&got);
  // Contents may go whenever the system wants them: nothing is known to be zero.
  fill(&got, 6);
  mx_bits_set(arena->dirty, 0, 8);
  mi_option_set(mi_option_purge_decommits, 0);
  const int64_t calls = mx_load_relaxed(&mx_process_counters.reset_calls);
  const int64_t bytes = mx_load_relaxed(&mx_process_counters.reset);
  for (int fails = 1; fails >= 0; fails--) {
    check(take_of(arena, 8, 1, &got) && !got.is_zero);
    fill(&got, 6);
    give_back(&got);
    if (fails) mock_fail_next();
    mx_arenas_purge(&mine, true);
    mock_heal();
    const int64_t more = (fails ? 0 : 8 * (int64_t)MX_SLICE_SIZE);
    check(mx_load_relaxed(&mx_process_counters.reset) == bytes + more);
    check(mx_bits_count(arena->dirty, 0, 8) == 8);
  }
  check(mx_load_relaxed(&mx_process_counters.reset_calls) == calls + 2);
  mi_option_set(mi_option_purge_decommits, 1);
  mi_option_set(mi_option_purge_delay, -1);
  mx_arenas_destroy(&mine);
}

static void test_unmap(void) {
  mx_slices_t got, used;
  mx_arena_t* const arena = piecewise();
  mi_option_set(mi_option_purge_delay, 100000);
  check(take_of(arena, 4, 1, &got) && take_of(arena, 1, 1, &used));
  fill(&got, 2);
  fill(&used, 2);
  give_back(&got);
  const int64_t before = reserved(), present = committed();
  mock_fault("uncut");
  mock_fail_all();
  check(!mx_arenas_unmap_free(&mine));
  mock_heal();
  mock_fault("plain");
  check(reserved() == before && purgeable() == 4);
  check(mx_bits_count(arena->committed, got.index, 4) == 4);
  check(mx_arenas_unmap_free(&mine) && purgeable() == 0 && reserved() < before);
  check(committed() == present - (int64_t)(4 * MX_SLICE_SIZE));
  check(mx_bits_count(arena->committed, got.index, 4) == 0 && used.start[0] == 2);
  check(mx_bits_test(arena->committed, used.index));
  check(!mx_arenas_unmap_free(&mine));  // there is nothing more
  check(take_of(arena, 4, 1, &got) && got.is_zero && is_all(&got, 0));
  mi_option_set(mi_option_purge_delay, -1);
  mx_arenas_destroy(&mine);
}

// After how many of so many takings more was committed than is in use.
static size_t times_ahead(mx_arena_t* arena, size_t takings) {
  mx_slices_t got;
  size_t times = 0;
  for (size_t i = 0; i < takings; i++) {
    check(take_of(arena, 1, 1, &got));
    const size_t taken = arena->slices - mx_bits_count(arena->free, 0, arena->slices);
    if (mx_bits_count(arena->committed, 0, arena->slices) > taken) times++;
  }
  return times;
}

// Where memory is locked what is committed is present: so nothing is that was not asked for, until
// it is not locked any more, or only seemed so as a call failed.
static void test_locked(void) {
  mx_slices_t got;
  mx_arena_t* const arena = piecewise();
  check(take_of(arena, 260, 1, &got));  // with less it is too little to be looked at
  check(times_ahead(arena, 66) > 0);
  mock_locked(true);
  times_ahead(arena, 48);
  check(times_ahead(arena, 64) == 0);
  mock_locked(false);
  check(times_ahead(arena, 66) > 0);
  mx_arenas_destroy(&mine);
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  mi_option_set(mi_option_max_warnings, 0);
  mi_option_set(mi_option_purge_delay, -1);
  mi_free(mi_malloc(100));
  const int64_t before = committed();
  test_half();
  if (mx_os_overcommits()) test_purge();
  if (MX_PIECEWISE && mx_os_overcommits()) {
    test_committed();
    for (size_t align = 1; align <= 64; align *= 8) {
      test_joined(align, true);
      test_joined(align, false);
    }
    test_nothing();
    test_unmap();
    if (mx_facts.purge_keeps_guards && !MX_SCATTER) test_locked();
    test_taken_behind();
    test_taken();
  }
  check(committed() <= before);
  printf("ok\n");
  return 0;
}
