// SPDX-License-Identifier: MIT
// Where a run can be had when the OS makes no mapping any more.
#include "arena.h"

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
