// SPDX-License-Identifier: MIT
// Runs of free slices: their claim, their return, and where one can be had when the OS makes no
// mapping any more.
#include "arena.h"

#define MEASURED_MOST 64  // a longer run ends what is known to lack

// How many free slices lie side by side, those of a run that became free among them.
static size_t measure_run(const mx_arena_t* arena, size_t index, size_t count) {
  size_t end = index + count;
  while (end < arena->slices && end - index < MEASURED_MOST && mx_bits_test(arena->free, end)) {
    end++;
  }
  while (index > 0 && end - index < MEASURED_MOST && mx_bits_test(arena->free, index - 1)) index--;
  return end - index;
}

// There is a run of `length`, and none that is longer but those that were there.
static void raise_lack(mx_atomic(size_t)* lack, size_t length) {
  size_t lacks = mx_load_relaxed(lack);
  const size_t more = (length < MEASURED_MOST ? length + 1 : SIZE_MAX);
  while (lacks < more && !mx_cas_weak_acq_rel(lack, &lacks, more)) {}
}

// What is free is set before these are read; a search that found nothing sets one before it looks
// once more. So one of them sees the other's; and of two that free slices side by side, one sees
// those of both.
static void has_more(mx_arena_t* arena, size_t index, size_t count) {
  mx_fence_seq_cst();
  const size_t lacks = mx_load_relaxed(&arena->lacks);
  const size_t lacks_dirty = mx_load_relaxed(&arena->lacks_dirty);
  if (lacks == SIZE_MAX && lacks_dirty == SIZE_MAX) return;
  const size_t length = measure_run(arena, index, count);
  raise_lack(&arena->lacks, length);
  raise_lack(&arena->lacks_dirty, length);
}

bool mx_arena_claim(mx_arena_t* arena, size_t index, size_t count) {
  mx_check(count > 0 && index + count <= arena->slices);
  if (mx_bits_try_claim(arena->free, index, count)) return true;
  // Searches may have missed the part that was claimed for a moment.
  has_more(arena, index, count);
  return false;
}

bool mx_arena_claim_mapped(mx_arena_t* arena, size_t index, size_t count) {
  if (!mx_arena_claim(arena, index, count)) return false;
  if (mx_bits_count(arena->committed, index, count) == count) return true;
  mx_arena_put_back(arena, index, count);
  return false;
}

void mx_arena_put_back(mx_arena_t* arena, size_t index, size_t count) {
  mx_check(count > 0 && index + count <= arena->slices);
  mx_check(mx_bits_count(arena->free, index, count) == 0);
  mx_bits_set(arena->free, index, count);
  has_more(arena, index, count);
  size_t low = mx_load_relaxed(&arena->low_hint);
  while (index < low && !mx_cas_weak_acq_rel(&arena->low_hint, &low, index)) {}
}

size_t mx_slices_find_joined(const mx_arena_t* arena, const mx_slices_request_t* r,
                             size_t from) {
  mx_check(r->count > 0 && r->align > 0 && (r->align & (r->align - 1)) == 0);
  const size_t offset = (uintptr_t)arena->start / MX_SLICE_SIZE;
  const size_t bits = mx_load_relaxed(&arena->usable);
  for (size_t end = mx_max(from, 1); end < bits; end++) {
    // The next slice that is mapped in front of one that is not.
    const size_t mapped = mx_bits_find_run(arena->committed, NULL, bits, 1, end - 1, 1, 0);
    if (mapped == SIZE_MAX) return SIZE_MAX;
    end = mx_bits_next_clear(arena->committed, bits, mapped);
    if (end >= bits) return SIZE_MAX;
    size_t first = end;
    while (first > 0 && end - first < r->count && mx_bits_test(arena->free, first - 1) &&
           mx_bits_test(arena->committed, first - 1)) {
      first--;
    }
    first = mx_align_up(first + offset, r->align) - offset;
    if (first < from || first > end || first + r->count > bits) continue;
    if (mx_bits_count(arena->free, first, r->count) == r->count) return first;
  }
  return SIZE_MAX;
}
