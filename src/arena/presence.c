// SPDX-License-Identifier: MIT
// Which OS pages of an arena may hold something, and which are guards.
#include "../base/facts.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "arena.h"

// All sizes here are powers of two. A division would cost more than the rest of a touch, which
// comes with every few blocks that are carved.
static unsigned bit_shift(void) {
  return (unsigned)mx_min(mx_bit_high(mx_facts.os_page), MX_SLICE_SHIFT);
}

size_t mx_arena_bits_per_slice(void) { return MX_SLICE_SIZE >> bit_shift(); }

size_t mx_arena_bit_of(const mx_arena_t* arena, const void* p) {
  return (size_t)((const uint8_t*)p - arena->start) >> bit_shift();
}

bool mx_arena_is_present(const mx_arena_t* arena, const void* start, size_t size) {
  mx_check(size > 0 && (const uint8_t*)start >= arena->start);
  const size_t first = mx_arena_bit_of(arena, start);
  const size_t last = mx_arena_bit_of(arena, (const uint8_t*)start + size - 1);
  return mx_bits_next_clear(arena->present, last + 1, first) > last;
}

size_t mx_arena_present_in(const mx_arena_t* arena, size_t index, size_t count) {
  mx_check(count > 0 && index + count <= arena->slices);
  const size_t per_slice = mx_arena_bits_per_slice();
  return mx_bits_count(arena->present, index * per_slice, count * per_slice);
}

bool mx_arena_has_present(const mx_arena_t* arena, size_t index, size_t count) {
  mx_check(count > 0 && index + count <= arena->slices);
  const size_t per_slice = mx_arena_bits_per_slice(), first = index * per_slice;
  const size_t end = first + count * per_slice;
  return mx_bits_find_run(arena->present, NULL, end, 1, first, 1, 0) != SIZE_MAX;
}

bool mx_arena_is_there(const mx_arena_t* arena, size_t index, size_t count) {
  return mx_arena_present_in(arena, index, count) > count * mx_arena_bits_per_slice() / 2;
}

size_t mx_arena_touch(mx_arena_t* arena, const void* start, size_t size) {
  mx_check((const uint8_t*)start >= arena->start);
  if (size == 0) return 0;
  const size_t first = mx_arena_bit_of(arena, start);
  const size_t last = mx_arena_bit_of(arena, (const uint8_t*)start + size - 1);
  // Nearly always memory is used again; seeing that costs no write to shared words.
  if (mx_arena_is_present(arena, start, size)) return 0;
  const size_t fresh = mx_bits_set(arena->present, first, last - first + 1);
  mx_count_add(&mx_process_counters.committed, (int64_t)(fresh << bit_shift()));
  return fresh;
}

size_t mx_arena_untouch(mx_arena_t* arena, const void* start, size_t size) {
  mx_check(mx_is_aligned(start, mx_facts.os_page) && size % mx_facts.os_page == 0);
  const size_t first = mx_arena_bit_of(arena, start);
  const size_t gone = mx_bits_clear(arena->present, first, size >> bit_shift());
  mx_count_add(&mx_process_counters.committed, -(int64_t)(gone << bit_shift()));
  return gone;
}

// ---- guards -------------------------------------------------------------------------------------

bool mx_arena_guard(mx_arena_t* arena, size_t index, size_t count, bool wanted) {
  mx_check(MX_GUARD_PAGES && count > 0 && index + count <= arena->slices);
  const size_t last = index + count - 1;
  bool ok = true;
  for (size_t i = index; i <= last; i++) {
    const bool wants = (wanted && i == last);
    if (mx_bits_test(arena->guarded, i) == wants) continue;
    uint8_t* const end = arena->start + (i + 1) * MX_SLICE_SIZE;
    // A fork may come in between: a guard that is noted and not there does no harm.
    if (wants) mx_bits_set(arena->guarded, i, 1);
    const bool done = mx_os_guard(end - mx_facts.os_page, mx_facts.os_page, wants);
    if (done != wants) mx_bits_clear(arena->guarded, i, 1);
    else if (!wants) ok = false;
  }
  return ok;
}
