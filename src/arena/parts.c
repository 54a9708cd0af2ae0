// SPDX-License-Identifier: MIT
// Slices that are mapped in part. Where addresses are scarce, those of pages of blocks are: a page
// of 64 KiB for each size that a thread uses is mostly not carved. What is mapped of such a slice
// is what is present of it, so holes are unmapped, too. For a fork in between, what is unmapped is
// not noted before, and what is mapped only then; what lies there unnoted is passed over as
// somebody else's.
#include "../base/facts.h"
#include "../mem/vmem.h"
#include "arena.h"

mx_cold bool mx_arena_may_have_parts(const mx_arena_t* arena) {
  return !arena->is_reserved;
}

// From bit *i on, finds a run of OS pages in one slice that are present, or are not, of slices that
// are mapped in part: how many, 0 when there is none below `end`.
mx_cold static size_t next_part(const mx_arena_t* arena, size_t* i, size_t end, bool present) {
  const size_t per_slice = mx_arena_bits_per_slice();
  for (; *i < end; ++*i) {
    const size_t slice = *i / per_slice, stop = mx_min(end, (slice + 1) * per_slice);
    if (mx_bits_test(arena->committed, slice)) {
      *i = stop - 1;
      continue;
    }
    size_t n = 0;
    while (*i + n < stop && mx_bits_test(arena->present, *i + n) == present) n++;
    if (n > 0) return n;
  }
  return 0;
}

mx_cold mx_commit_t mx_arena_map_parts(mx_arena_t* arena, const void* start, size_t size) {
  mx_check(size > 0 && (const uint8_t*)start >= arena->start);
  const size_t unit = mx_facts.os_page;
  const size_t first = mx_arena_bit_of(arena, start);
  const size_t end = mx_arena_bit_of(arena, (const uint8_t*)start + size - 1) + 1;
  for (size_t i = first, n; (n = next_part(arena, &i, end, false)) > 0; i += n) {
    const mx_map_result_t result = mx_vmem_map_at(arena->start + i * unit, n * unit, true);
    if (result == MX_MAP_DONE) continue;
    if (i > first) mx_arena_touch(arena, arena->start + first * unit, (i - first) * unit);
    return result == MX_MAP_TAKEN ? MX_COMMIT_TAKEN : MX_COMMIT_REFUSED;
  }
  return MX_COMMIT_DONE;
}

mx_cold size_t mx_arena_unmap_parts(mx_arena_t* arena, const void* start, size_t size) {
  mx_check(size > 0 && (const uint8_t*)start >= arena->start);
  const size_t unit = mx_facts.os_page;
  const size_t end = mx_arena_bit_of(arena, (const uint8_t*)start + size - 1) + 1;
  size_t i = mx_arena_bit_of(arena, start), gone = 0;
  for (size_t n; (n = next_part(arena, &i, end, true)) > 0; i += n) {
    uint8_t* const part = arena->start + i * unit;
    mx_arena_untouch(arena, part, n * unit);
    if (mx_vmem_unmap(part, n * unit, 0)) gone += n * unit;
    else mx_arena_touch(arena, part, n * unit);
  }
  return gone;
}

// What the OS could not cut out of a mapping when its page went becomes a whole slice, or is left
// where it is.
mx_cold void mx_arena_drop_parts(mx_arena_t* arena, size_t index, size_t count) {
  mx_check(mx_bits_count(arena->free, index, count) == 0);
  mx_arena_unmap_parts(arena, mx_arena_slice(arena, index), count * MX_SLICE_SIZE);
  for (size_t i = index; i < index + count; i++) {
    if (mx_bits_test(arena->committed, i)) continue;
    if (!mx_arena_has_present(arena, i, 1)) continue;
    uint8_t* const start = mx_arena_slice(arena, i);
    if (mx_arena_map_parts(arena, start, MX_SLICE_SIZE) == MX_COMMIT_DONE) {
      mx_bits_set(arena->committed, i, 1);
    } else {
      mx_arena_untouch(arena, start, MX_SLICE_SIZE);
    }
  }
}

mx_cold bool mx_arena_is_whole(const mx_arena_t* arena, const void* start, size_t size) {
  mx_check(size > 0 && (const uint8_t*)start >= arena->start);
  const size_t offset = (size_t)((const uint8_t*)start - arena->start);
  const size_t first = offset / MX_SLICE_SIZE, end = (offset + size - 1) / MX_SLICE_SIZE + 1;
  return mx_bits_count(arena->committed, first, end - first) == end - first;
}

size_t mx_arena_discard(mx_arena_t* arena, void* start, size_t size) {
  mx_check(mx_is_aligned(start, mx_facts.os_page) && size % mx_facts.os_page == 0);
  if (MX_PARTS && mx_load_relaxed(&arena->has_parts) && !mx_arena_is_whole(arena, start, size)) {
    return mx_arena_unmap_parts(arena, start, size);
  }
  if (!mx_vmem_discard(start, size)) return 0;
  return mx_arena_untouch(arena, start, size) * mx_facts.os_page;
}
