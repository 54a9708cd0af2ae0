// SPDX-License-Identifier: MIT
// The return of free slices to the OS. To purge, a run is claimed like an allocation, so
// nobody uses it meanwhile and no lock is held across the OS call.
//
// Freed slices wait for `purge_delay`, because most of them are asked for again soon. What waits is
// bounded: by a floor and a share of what is in use, and beyond that a free purges at once, so that
// a process that falls idle holds little although it makes no further call. Slices are handed out
// lowest address first, so the highest ones are purged first. With a background thread the bound
// is not needed: that thread comes when the delay is over.
//
// What goes on a thread's way goes in steps, so that its calls stay short: 512 KiB take the OS 25
// to 100 us. Of what is due that much goes for each ms that has passed, an eighth of it at a time:
// the next that comes by goes on. So one that comes by now and then gives back as much in a second.
//
// Purging does not pay when the memory is asked for again soon after. `gone` counts slices that
// were purged lately; a fresh slice handed out while there are such is a refault, and lets one more
// slice wait without limit (`keep`). A loop of any amplitude therefore loses its memory once and
// then no more; of one large block, which many a program makes larger and smaller twice, two times.
// Where as much still waits, but in pieces that do not serve, a share of what is in use may wait
// for that. Both numbers are halved as time passes without refaults, so what is kept goes at last.
//
// With a negative delay what is free waits until memory is short or a caller wants it to go. Builds
// that scatter take slices from anywhere: with them the bound holds, and the delay has no end.
#include "../base/facts.h"
#include "../base/options.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../os/thread.h"
#include "arena.h"

#define PURGEABLE_FLOOR 96  // slices that may wait in any case: this,
#define PURGEABLE_SHARE 4   // and this part of all in use
#define PURGEABLE_SHARE_SCARCE 32  // only this part, where addresses are
#define ONCE_SLICES 512     // refaults of a request of so many count from the second time on
#define PIECES_SHARE 4      // refaults beside as much that waits let this part of all in use wait
#define TRIM_BATCH 16       // slices beyond the bound that are worth a call of the OS,
#define TRIM_BATCH_SCARCE 4 // and where addresses are scarce
#define KEEP_MSECS 10000    // between two halvings of `keep`
#define STEP_SLICES 8       // that may go for each ms since they were due,
#define STEP_SHARE 8        // this part of them in a step
#define STEP_LOOKS 16384    // slices that wait, which a step looks at in 30 us
#define TURN_MSECS 100      // that a purge of all waits for another one

mx_at_start mx_atomic(mx_wake_background_fn*) mx_arenas_background;

// Whether a bound alone limits what waits, and no delay.
static bool waits_by_bound(void) { return MX_SCATTER && mx_option(purge_delay) < 0; }

static long purge_delay(void) {
  const long delay = mx_option(purge_delay);
  if (waits_by_bound()) return INT32_MAX;
  if (delay <= 0) return delay;
  // Clocks are compared by their low 32 bits: no wait is longer than those can tell.
  const int64_t most = INT32_MAX;
  const int64_t all = (delay < most ? delay : most) * (int64_t)mx_option(arena_purge_mult);
  return (long)(all < most ? all : most);
}

// ---- when --------------------------------------------------------------------------------------

// A run waits that the caller noted before. Against its opposite in mx_arenas_purge: either this
// sees the schedule empty, or that sees what waits; without the fences both could see old values,
// and the run would wait for ever.
static void schedule_purge(mx_arenas_t* arenas, uint64_t at) {
  mx_check(at != 0);
  mx_fence_seq_cst();
  if (mx_load_relaxed(&arenas->purge_at) != 0) return;
  uint64_t none = 0;
  if (!mx_cas_strong_acq_rel(&arenas->purge_at, &none, at)) return;
  mx_arenas_wake_background();
}

void mx_arena_schedule_purge(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count) {
  mx_check(count > 0 && index + count <= arena->slices);
  const uint32_t now = (uint32_t)mx_os_clock_msecs();
  mx_check(!arena->is_pinned && mx_bits_count(arena->free, index, count) == 0);
  mx_check(mx_bits_count(arena->dirty, index, count) == count);
  for (size_t i = index; i < index + count; i++) mx_store_relaxed(&arena->freed_at[i], now);
  mx_bits_set(arena->purgeable, index, count);
  mx_arena_count_purgeable(arenas, arena, (intptr_t)count);
}

void mx_arenas_note_fresh(mx_arenas_t* arenas, size_t count) {
  const intptr_t gone = mx_load_relaxed(&arenas->gone);
  if (gone <= 0) return;
  // Of scattered pages some always wait, and say nothing about the others.
  const intptr_t waiting = (MX_SCATTER ? 0 : mx_load_relaxed(&arenas->purgeable));
  const intptr_t keep = mx_load_relaxed(&arenas->keep);
  const intptr_t room = mx_load_relaxed(&arenas->in_use) / PIECES_SHARE - keep;
  const intptr_t wanted = (intptr_t)count;
  const intptr_t pieces = (wanted < room ? wanted : room);
  const intptr_t lacking = (wanted - waiting > pieces ? wanted - waiting : pieces);
  if (lacking <= 0) return;
  intptr_t refault = mx_min(lacking, gone);
  mx_check(refault > 0);
  mx_add_relaxed(&arenas->gone, -refault);
  if (count >= ONCE_SLICES) {
    const intptr_t before = mx_load_relaxed(&arenas->once);
    mx_store_relaxed(&arenas->once, refault);
    refault = mx_min(refault, before);
  }
  if (mx_add_relaxed(&arenas->keep, refault) == 0) {
    mx_store_relaxed(&arenas->keep_until, mx_os_clock_msecs() + KEEP_MSECS);
  }
}

static void age_refaults(mx_arenas_t* arenas, uint64_t now) {
  uint64_t until = mx_load_relaxed(&arenas->keep_until);
  if (now < until || !mx_cas_strong_acq_rel(&arenas->keep_until, &until, now + KEEP_MSECS)) return;
  const intptr_t keep = mx_load_relaxed(&arenas->keep);
  mx_add_relaxed(&arenas->keep, -(keep - keep / 2));
  const intptr_t gone = mx_load_relaxed(&arenas->gone);
  mx_add_relaxed(&arenas->gone, -(gone - gone / 2));
}

// ---- purging -----------------------------------------------------------------------------------

// What to purge: at most `most` slices of those that waited for `age` ms, in runs of at least
// `least_run`; in a purge that is forced fresh ones, too, of which something may be present.
typedef struct order_s {
  uint32_t now, age;
  intptr_t most;
  size_t least_run;
  bool is_forced;
  uint64_t step;  // ms that `most` is for, where more is due; or 0
} order_t;

static void purge_run(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count) {
  mx_check(count > 0 && index + count <= arena->slices && !arena->is_pinned);
  if (!mx_arena_claim_mapped(arena, index, count)) return;  // in use again
  mx_check(mx_bits_count(arena->free, index, count) == 0);
  const size_t waited = mx_bits_clear(arena->purgeable, index, count);
  mx_arena_count_purgeable(arenas, arena, -(intptr_t)waited);
  void* start = arena->start + index * MX_SLICE_SIZE;
  const size_t size = count * MX_SLICE_SIZE;
  bool needs_commit = false, is_zero = false;
  // Addresses of which the OS was asked for large pages are had anew without them. In builds that
  // scatter, those that would go unnoticed.
  const bool unmaps = (!arena->is_reserved &&
                       (MX_SCATTER || mx_bits_count(arena->large, index, count) > 0));
  const bool keeps_guards = unmaps || (arena->commit_fn == NULL && mx_facts.purge_keeps_guards &&
                                       mx_os_overcommits());
  if (MX_GUARD_PAGES && !keeps_guards) mx_arena_guard(arena, index, count, false);
  if (arena->commit_fn != NULL) {
    needs_commit = arena->commit_fn(false, start, size, NULL, arena->commit_arg);
    is_zero = needs_commit;
  } else {
    is_zero = mx_vmem_purge(start, size, arena->is_reserved, unmaps, &needs_commit);
  }
  if (needs_commit) mx_bits_clear(arena->committed, index, count);
  if (needs_commit && unmaps) mx_bits_clear(arena->large, index, count);
  if (MX_GUARD_PAGES && needs_commit) mx_bits_clear(arena->guarded, index, count);
  if (is_zero) {
    mx_bits_clear(arena->dirty, index, count);
    mx_arena_untouch(arena, start, size);
    // Addresses of one heap may not serve again, so they say nothing about what waits.
    if (!mx_arena_has_plots(arena)) mx_add_relaxed(&arenas->gone, (intptr_t)count);
  }
  mx_check(mx_bits_count(arena->purgeable, index, count) == 0);
  mx_arena_put_back(arena, index, count);
}

static bool may_purge(const mx_arena_t* arena, size_t i, const order_t* order) {
  return mx_bits_test(arena->purgeable, i) &&
         (uint32_t)(order->now - mx_load_relaxed(&arena->freed_at[i])) >= order->age;
}

static void purge_arena(mx_arenas_t* arenas, mx_arena_t* arena, order_t* order) {
  mx_check(order->least_run > 0);
  for (size_t end = arena->slices; order->most > 0;) {
    end = mx_bits_find_last(arena->purgeable, end);
    if (end == SIZE_MAX) return;
    if (!may_purge(arena, end, order)) continue;
    size_t first = end++;
    while (first > 0 && (intptr_t)(end - first) < order->most &&
           may_purge(arena, first - 1, order)) {
      first--;
    }
    if (end - first >= order->least_run) {
      purge_run(arenas, arena, first, end - first);
      order->most -= (intptr_t)(end - first);
    }
    end = first;
  }
}

// One purger at a time is enough; the others go on with their work, but for one that wants all.
static bool begin_purge(mx_arenas_t* arenas, bool waits) {
  const uint64_t begin = (waits ? mx_os_clock_msecs() : 0);
  while (mx_exchange_acq_rel(&arenas->purging, 1) != 0) {
    if (!waits || mx_os_clock_msecs() - begin > TURN_MSECS) return false;
    mx_os_yield();
  }
  return true;
}

static void purge(mx_arenas_t* arenas, order_t* order) {
  if (!begin_purge(arenas, order->is_forced)) return;
  mx_call_enter();  // free slices are this thread's meanwhile
  mx_counter_add(&mx_process_counters.arena_purges, 1);
  for (size_t i = mx_load_acquire(&arenas->count); i-- > 0;) {
    mx_arena_t* arena = mx_arena_at(arenas, i);
    if (arena == NULL) continue;
    if (order->is_forced) mx_arena_drop_fresh(arena);
    if (mx_load_relaxed(&arena->purgeable_count) > 0) purge_arena(arenas, arena, order);
  }
  mx_store_release(&arenas->purging, 0);
  mx_call_leave();
}

void mx_arena_take_back(mx_arena_t* arena, size_t index) {
  mx_check(!mx_bits_test(arena->free, index));
  uint8_t* const start = mx_arena_slice(arena, index);
  mx_bits_clear(arena->purgeable, index, 1);  // counted anew
  if (arena->is_reserved) {
    if (!mx_os_overcommits()) mx_bits_clear(arena->committed, index, 1);
    return;
  }
  // What is not noted was not counted, either.
  const bool is_noted = mx_bits_test(arena->committed, index);
  if (is_noted ? mx_vmem_unmap(start, MX_SLICE_SIZE, 0) : mx_os_unmap(start, MX_SLICE_SIZE)) {
    mx_bits_clear(arena->committed, index, 1);
    mx_arena_untouch(arena, start, MX_SLICE_SIZE);
  } else {
    mx_bits_set(arena->committed, index, 1);
  }
}

static size_t least_run(void) {
  const long wanted = mx_option(minimal_purge_size);
  size_t size = (wanted > 0 ? (size_t)wanted * MX_KIB : 0);
  // Pieces of a large OS page come back as small ones.
  if (size == 0 && mx_option(allow_thp) >= 2) size = mx_facts.large_page;
  return mx_max(size / MX_SLICE_SIZE, 1);
}

intptr_t mx_arenas_may_wait(const mx_arenas_t* arenas) {
  const intptr_t in_use = mx_max(mx_load_relaxed(&arenas->in_use), (intptr_t)0);
  if (mx_os_is_scarce()) return in_use / PURGEABLE_SHARE_SCARCE;
  return PURGEABLE_FLOOR + in_use / PURGEABLE_SHARE + mx_load_relaxed(&arenas->keep);
}

void mx_arenas_after_free(mx_arenas_t* arenas) {
  const long delay = purge_delay();
  const intptr_t purgeable = mx_load_relaxed(&arenas->purgeable);
  if (purgeable <= 0) return;
  const size_t limit = mx_load_relaxed(&mx_memory_limit.bytes);
  const bool is_short = (limit != 0 && !mx_memory_limit_room(limit - limit / 8, 0));
  if (delay < 0 && !is_short) return;
  const bool is_bound = waits_by_bound() || mx_load_relaxed(&mx_arenas_background) == NULL;
  if (is_short || delay == 0 || is_bound) {
    intptr_t most = purgeable;
    if (delay > 0 && !is_short) {
      most -= mx_arenas_may_wait(arenas);
    }
    if (delay == 0 || most >= (mx_os_is_scarce() ? TRIM_BATCH_SCARCE : TRIM_BATCH)) {
      order_t order = {(uint32_t)mx_os_clock_msecs(), 0, most, least_run(), false, 0};
      purge(arenas, &order);
    }
  }
  if (delay < 0) return;
  mx_fence_seq_cst();  // as in schedule_purge, whose clock is only read when it must be
  if (mx_load_relaxed(&arenas->purge_at) == 0) {
    schedule_purge(arenas, mx_os_clock_msecs() + (uint64_t)delay + 1);
  }
}

// A program that keeps its memory busy frees runs all the time, of which few come of age.
static uint64_t next_look(mx_arenas_t* arenas, uint64_t now, long delay) {
  if (mx_load_relaxed(&arenas->purgeable) > mx_load_relaxed(&arenas->keep)) {
    return now + (uint64_t)delay / 4 + 1;
  }
  const uint64_t until = mx_load_relaxed(&arenas->keep_until);
  return (until > now + (uint64_t)delay ? until : now + (uint64_t)delay) + 1;
}

typedef enum purge_e { PURGE_STEP, PURGE_DUE, PURGE_ALL } purge_t;

// What a step left is due, though the next one is not yet.
static bool may_be_early(const mx_arenas_t* arenas, purge_t kind) {
  return kind == PURGE_ALL || (kind == PURGE_DUE && mx_load_relaxed(&arenas->goes_on));
}

static uint64_t step_msecs(const mx_arenas_t* arenas) {
  return 1 + (uint64_t)mx_max(mx_load_relaxed(&arenas->purgeable), (intptr_t)0) / STEP_LOOKS;
}

// What goes by itself. A step comes when it is due, not before `at`.
static order_t order_due(const mx_arenas_t* arenas, purge_t kind, uint64_t at, uint64_t now,
                         long delay) {
  const intptr_t most = mx_load_relaxed(&arenas->purgeable) - mx_load_relaxed(&arenas->keep);
  order_t order = {(uint32_t)now, (uint32_t)delay, most, least_run(), false, 0};
  // Longer runs would be cut to what is too short to go.
  if (kind != PURGE_STEP || order.least_run > 1) return order;
  const uint64_t least = step_msecs(arenas);
  const uint64_t step = mx_max((now - at + least) / STEP_SHARE, least);
  if (most <= 0 || STEP_SLICES * step >= (uint64_t)most) return order;
  order.most = (intptr_t)(STEP_SLICES * step);
  order.step = step;
  return order;
}

static void purge_scheduled(mx_arenas_t* arenas, purge_t kind) {
  const uint64_t at = mx_load_relaxed(&arenas->purge_at);
  if (at == 0 && kind != PURGE_ALL) return;
  const uint64_t now = mx_os_clock_msecs();
  if (now < at && !may_be_early(arenas, kind)) return;
  // The thread that empties the schedule does the work.
  uint64_t expected = at;
  const bool is_mine =
      (at == 0 || mx_cas_strong_acq_rel(&arenas->purge_at, &expected, (uint64_t)0));
  if (!is_mine && kind != PURGE_ALL) return;
  mx_fence_seq_cst();
  age_refaults(arenas, now);
  const long delay = purge_delay();
  if (delay < 0 && kind != PURGE_ALL) return;
  const order_t all = {(uint32_t)now, 0, INTPTR_MAX, 1, true, 0};
  order_t order = (kind == PURGE_ALL ? all : order_due(arenas, kind, at, now, delay));
  purge(arenas, &order);
  if (kind == PURGE_ALL && !mx_os_overcommits()) mx_arenas_unmap_free(arenas);
  // What was freed meanwhile, is too young or was passed over is scheduled anew.
  if (delay >= 0 && mx_load_relaxed(&arenas->purgeable) > 0) {
    const bool goes_on = (order.step > 0 && order.most <= 0);
    mx_store_relaxed(&arenas->goes_on, goes_on);
    schedule_purge(arenas, goes_on ? at + order.step : next_look(arenas, now, delay));
  }
}

void mx_arenas_purge(mx_arenas_t* arenas, bool force) {
  purge_scheduled(arenas, force ? PURGE_ALL : PURGE_DUE);
}

void mx_arenas_follow_delay(mx_arenas_t* arenas) {
  const long delay = purge_delay();
  if (delay < 0 || mx_load_relaxed(&arenas->purgeable) <= 0) return;
  const uint64_t due = mx_os_clock_msecs() + (uint64_t)delay + 1;
  uint64_t at = mx_load_relaxed(&arenas->purge_at);
  if (at > due && !mx_cas_strong_acq_rel(&arenas->purge_at, &at, (uint64_t)0)) return;
  schedule_purge(arenas, due);
}

// ---- the memory limit --------------------------------------------------------------------------

bool mx_arenas_allow(mx_arenas_t* arenas, size_t bytes) {
  const size_t limit = mx_load_relaxed(&mx_memory_limit.bytes);
  if (mx_likely(limit == 0)) return true;
  if (mx_memory_limit_room(limit - limit / 8, bytes)) return true;
  if (mx_load_relaxed(&arenas->purgeable) > 0) mx_arenas_purge(arenas, true);
  if (mx_memory_limit_room(limit - limit / 8, bytes)) return true;
  mx_pressure_fn* const on_pressure = mx_load_relaxed(&mx_memory_limit.on_pressure);
  if (on_pressure != NULL) on_pressure(false);
  if (!mx_load_relaxed(&mx_memory_limit.is_hard)) return true;
  if (mx_memory_limit_room(mx_load_relaxed(&mx_memory_limit.bytes), bytes)) return true;
  if (on_pressure != NULL) on_pressure(true);
  if (mx_memory_limit_room(mx_load_relaxed(&mx_memory_limit.bytes), bytes)) return true;
  // What was only reset, or is clean, counts until it is unmapped.
  return mx_arenas_unmap_free(arenas) &&
         mx_memory_limit_room(mx_load_relaxed(&mx_memory_limit.bytes), bytes);
}

void mx_arenas_purge_tick(mx_arenas_t* arenas) { purge_scheduled(arenas, PURGE_STEP); }
