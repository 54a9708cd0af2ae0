// SPDX-License-Identifier: MIT
// Owns the return of free slices to the OS: freed runs wait for `purge_delay`, then go in runs as
// long as possible. To purge, a run is claimed like an allocation, so nobody uses it meanwhile and
// no lock is held across the OS call.
#include "../base/options.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "arena.h"

static long purge_delay(void) {
  const long delay = mx_option(purge_delay);
  return delay <= 0 ? delay : delay * mx_option(arena_purge_mult);
}

static void appoint(mx_arenas_t* arenas, long delay) {
  if (delay < 0 || mx_load_relaxed(&arenas->purge_at) != 0) return;
  uint64_t none = 0;
  mx_cas_strong_acq_rel(&arenas->purge_at, &none, mx_os_clock_msecs() + (uint64_t)delay + 1);
}

void mx_arena_schedule_purge(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count) {
  const long delay = purge_delay();
  if (delay < 0) return;
  mx_bits_set(arena->waiting, index, count);
  mx_add_relaxed(&arenas->waiting, (intptr_t)count);
  appoint(arenas, delay);
}

static void purge_run(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count) {
  if (!mx_bits_try_claim(arena->free, index, count)) return;  // in use again
  const size_t waited = mx_bits_clear(arena->waiting, index, count);
  mx_add_relaxed(&arenas->waiting, -(intptr_t)waited);
  const size_t dirty = mx_bits_count(arena->dirty, index, count);
  void* start = arena->start + index * MX_SLICE_SIZE;
  const size_t size = count * MX_SLICE_SIZE;
  bool needs_commit = false, is_zero = false;
  if (arena->commit_fn != NULL) {
    needs_commit = arena->commit_fn(false, start, size, NULL, arena->commit_arg);
    is_zero = needs_commit;
  } else {
    is_zero = mx_vmem_purge(start, size, &needs_commit);
  }
  if (needs_commit) mx_bits_clear(arena->committed, index, count);
  if (is_zero) {
    mx_bits_clear(arena->dirty, index, count);
    mx_count_add(&mx_process_counters.committed, -(int64_t)(dirty * MX_SLICE_SIZE));
  }
  mx_bits_set(arena->free, index, count);
}

static void purge_arena(mx_arenas_t* arenas, mx_arena_t* arena) {
  for (size_t i = 0; i < arena->slices;) {
    i = mx_bits_find_run(arena->waiting, NULL, arena->slices, 1, i, 1, 0);
    if (i == SIZE_MAX) return;
    size_t n = 1;
    while (i + n < arena->slices && mx_bits_test(arena->waiting, i + n)) n++;
    purge_run(arenas, arena, i, n);
    i += n;
  }
}

void mx_arenas_purge(mx_arenas_t* arenas, bool force) {
  const uint64_t at = mx_load_relaxed(&arenas->purge_at);
  if (at == 0 || (!force && mx_os_clock_msecs() < at)) return;
  // One purger at a time: who takes the appointment away does the work.
  uint64_t expected = at;
  if (!mx_cas_strong_acq_rel(&arenas->purge_at, &expected, (uint64_t)0)) return;
  mx_counter_add(&mx_process_counters.arena_purges, 1);
  const size_t count = mx_load_acquire(&arenas->count);
  for (size_t i = 0; i < count; i++) {
    mx_arena_t* arena = mx_arena_at(arenas, i);
    if (arena != NULL) purge_arena(arenas, arena);
  }
  // A run that was being freed meanwhile was passed over: it gets an appointment of its own.
  if (mx_load_relaxed(&arenas->waiting) > 0) appoint(arenas, purge_delay());
}

void mx_arenas_purge_tick(mx_arenas_t* arenas) {
  if (mx_load_relaxed(&arenas->purge_at) != 0) mx_arenas_purge(arenas, false);
}
