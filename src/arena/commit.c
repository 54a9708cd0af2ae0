// SPDX-License-Identifier: MIT
// The commitment of an arena's slices: what makes them usable before they are handed out.
//
// Only slices that are not committed are ever touched, and only by the thread that claimed them:
// those in use may have another protection by now, which their user wants. More than what was asked
// for is committed at once, of free slices behind it that are claimed for that moment, since what
// is never used costs nothing. When the OS refuses that, it is asked for what is needed.
#include "../base/facts.h"
#include "../base/options.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "arena.h"

// Slices that are committed beyond a request: a share of what is in use, between these. Where
// memory is locked all of it becomes present.
#define MORE_SHARE 16
#define MORE_LEAST ((size_t)2)
#define MORE_MOST ((size_t)1024)

#define LOCK_LOOK_FROM 16  // slices beyond a request are worth a look whether memory is locked, and
#define LOCKED_LOOKS 64    // so many commits one whether it still is

// Fresh memory was locked when this was last looked at (mlockall).
static mx_at_start mx_atomic(bool) is_locked;

// A large OS page lies in one mapping, so where no other size is to be kept away, none is refused
// before its end is mapped, which many arenas never come to. What lies between in no mapping of
// theirs is passed over.
void mx_arena_advise(const mx_arena_t* arena, void* start, size_t size) {
  const size_t large = (mx_option(allow_thp) == 1 ? mx_facts.large_page : 0);
  const size_t before = (large == 0 ? 0 : (uintptr_t)start % large);
  if (before + size >= large) {
    const size_t more = mx_min(before, (size_t)((uint8_t*)start - arena->start));
    mx_vmem_advise_large((uint8_t*)start - more, size + more);
  }
  if (arena->numa_node >= 0) mx_os_advise_numa(start, size, arena->numa_node);
}

// All of the run, though only whole large OS pages in it are had: so it stays one mapping, which
// can move.
void mx_arena_want_large(mx_arena_t* arena, size_t index, size_t count) {
  mx_check(mx_bits_count(arena->free, index, count) == 0);
  if (arena->is_reserved) return;
  mx_os_advise_large(mx_arena_slice(arena, index), count * MX_SLICE_SIZE, true);
  mx_bits_set(arena->large, index, count);
}

// A run of slices that are the caller's and not committed.
static mx_commit_t commit_run(mx_arena_t* arena, size_t index, size_t count, bool* is_zero) {
  mx_check(count > 0 && index + count <= arena->slices);
  mx_check(mx_bits_count(arena->committed, index, count) == 0);
  void* const start = mx_arena_slice(arena, index);
  const size_t size = count * MX_SLICE_SIZE;
  if (arena->commit_fn != NULL) {
    bool zeroed = false;
    if (!arena->commit_fn(true, start, size, &zeroed, arena->commit_arg)) return MX_COMMIT_REFUSED;
    if (!zeroed) *is_zero = false;
  } else if (arena->is_reserved) {
    if (!mx_vmem_commit(start, size)) return MX_COMMIT_REFUSED;
  } else {
    const mx_map_result_t result = mx_vmem_map_at(start, size, true);
    if (result == MX_MAP_TAKEN) return MX_COMMIT_TAKEN;
    // Where the process has as many mappings as it may have, one can still become longer.
    const bool has_front = (index > 0 && mx_bits_test(arena->committed, index - 1));
    const bool is_done = (result == MX_MAP_DONE || (has_front && mx_vmem_map_behind(start, size)));
    if (!is_done) return MX_COMMIT_REFUSED;
    mx_arena_advise(arena, start, size);
  }
  mx_bits_set(arena->committed, index, count);
  return MX_COMMIT_DONE;
}

// Whether the OS shall give large pages everywhere, which it does only where all of one is mapped.
// A process that does not fill one does without.
static bool wants_large(size_t slices_in_use) {
  const size_t large = mx_facts.large_page;
  return mx_option(allow_thp) >= 2 && large != 0 && slices_in_use >= large / MX_SLICE_SIZE;
}

// Claims free slices from `index` on to be committed with those before them: how many. In a heap
// that grows by large OS pages, those up to the end of one.
static size_t claim_more(const mx_arenas_t* arenas, mx_arena_t* arena, size_t index,
                         bool is_large) {
  if (mx_os_is_scarce() || mx_load_relaxed(&is_locked)) return 0;
  if (arena->commit_fn != NULL || arena->mapping == NULL) return 0;
  if (arena->is_reserved && !mx_os_overcommits()) return 0;
  if (MX_SCATTER && !arena->is_reserved) return 0;
  const size_t in_use = (size_t)mx_max(mx_load_relaxed(&arenas->in_use), (intptr_t)0);
  const size_t most = mx_min(mx_max(in_use / MORE_SHARE, MORE_LEAST), MORE_MOST);
  const size_t wanted =
      (is_large || wants_large(in_use) ? mx_arena_large_end(arena, index)
                                       : mx_align_up(index + most, MORE_LEAST));
  const size_t end = mx_min(wanted, mx_load_relaxed(&arena->usable));
  size_t count = 0;
  for (size_t i = index; i < end; i++, count++) {
    if (!mx_bits_test(arena->free, i) || mx_bits_test(arena->committed, i)) break;
  }
  if (count == 0 || !mx_arena_claim(arena, index, count)) return 0;
  // They may have been in use meanwhile.
  if (mx_bits_count(arena->committed, index, count) == 0) return count;
  mx_arena_put_back(arena, index, count);
  return 0;
}

// Whether a fresh slice of the caller's is locked and so present already, told by a call that all
// filters allow: contents could not be dropped. Where purging maps anew, that tells nothing.
static bool seems_locked(const mx_arena_t* arena, size_t index) {
  mx_check(mx_bits_test(arena->committed, index));
  return mx_facts.purge_keeps_guards &&
         !mx_os_purge(mx_arena_slice(arena, index), mx_facts.os_page);
}

// What lies ready is present, too, where memory is locked. A negative delay may be one of a program
// that locked it. It may be unlocked again, and a call may have failed for another reason.
mx_cold static void look_for_lock(mx_arenas_t* arenas, const mx_arena_t* arena, size_t index) {
  static mx_atomic(uint32_t) looks_wanted;
  const bool before = mx_load_relaxed(&is_locked);
  if (before && mx_add_relaxed(&looks_wanted, (uint32_t)1) % LOCKED_LOOKS != 0) return;
  const bool now = seems_locked(arena, index);
  if (now == before) return;
  mx_store_relaxed(&is_locked, now);
  if (now && mx_option(purge_delay) >= 0) mx_arenas_unmap_free(arenas);
}

void mx_arena_end_at(mx_arena_t* arena, size_t index) {
  mx_check(index <= arena->slices);
  size_t usable = mx_load_relaxed(&arena->usable);
  while (index < usable && !mx_cas_weak_acq_rel(&arena->usable, &usable, index)) {}
}

static mx_commit_t commit_with_more(mx_arenas_t* arenas, mx_arena_t* arena, size_t index,
                                    size_t count, bool* is_zero) {
  mx_check(count > 0 && index + count <= arena->slices);
  const bool is_large = mx_arena_grows_by_large(arena, count);
  // Pages with room to grow begin apart from each other, where nothing in front is committed: what
  // lies behind their first slices may never be wanted.
  const bool goes_on = (is_large || index == 0 || mx_bits_test(arena->committed, index - 1));
  const size_t more = (goes_on ? claim_more(arenas, arena, index + count, is_large) : 0);
  mx_commit_t result = commit_run(arena, index, count + more, is_zero);
  if (is_large && result == MX_COMMIT_DONE) {
    mx_arena_fill_large(arena, index, index + count + more);
  }
  const bool looks = (result == MX_COMMIT_DONE && !is_large && arena->commit_fn == NULL &&
                      (more >= LOCK_LOOK_FROM || mx_load_relaxed(&is_locked)));
  if (result != MX_COMMIT_DONE && more > 0) {
    if (result == MX_COMMIT_TAKEN) mx_arena_end_at(arena, index + count);
    result = commit_run(arena, index, count, is_zero);
  }
  if (more > 0) mx_arena_put_back(arena, index + count, more);
  if (mx_unlikely(looks)) look_for_lock(arenas, arena, index);
  return result;
}

mx_commit_t mx_arena_commit(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count,
                            bool* is_zero) {
  mx_check(count > 0 && index + count <= arena->slices);
  mx_check(mx_bits_count(arena->free, index, count) == 0);
  if (mx_bits_count(arena->committed, index, count) == count) return MX_COMMIT_DONE;
  for (const size_t end = index + count; index < end; index += count) {
    const bool done = mx_bits_test(arena->committed, index);
    count = 1;
    while (index + count < end && mx_bits_test(arena->committed, index + count) == done) count++;
    if (done) continue;
    const mx_commit_t result =
        (index + count == end ? commit_with_more(arenas, arena, index, count, is_zero)
                              : commit_run(arena, index, count, is_zero));
    if (result == MX_COMMIT_TAKEN) mx_arena_end_at(arena, index);
    if (result != MX_COMMIT_DONE) return result;
  }
  return MX_COMMIT_DONE;
}

void mx_arena_unmap_committed(mx_arena_t* arena, size_t index, size_t count) {
  const size_t end = index + count;
  for (size_t i = index, n; i < end; i += n) {
    i = mx_bits_find_run(arena->committed, NULL, end, 1, i, 1, 0);
    if (i == SIZE_MAX) return;
    for (n = 1; i + n < end && mx_bits_test(arena->committed, i + n);) n++;
    // Before, for a fork in between.
    if (MX_SCATTER) mx_bits_clear(arena->committed, i, n);
    const bool done = mx_vmem_unmap(mx_arena_slice(arena, i), n * MX_SLICE_SIZE, 0);
    if (MX_SCATTER && !done) mx_bits_set(arena->committed, i, n);
  }
}

void mx_arena_unmap(mx_arena_t* arena) {
  if (arena->mapping == NULL) return;
  if (arena->is_reserved) mx_vmem_unmap(arena->mapping, arena->mapping_size, 0);
  else mx_arena_unmap_committed(arena, 0, arena->slices);
  if (mx_arena_has_plots(arena)) return;
  mx_vmem_placed_is_free(MX_ZONE_NEAR, arena->mapping, arena->mapping_size);
}
