// SPDX-License-Identifier: MIT
// Large OS pages for what a heap grows by. One is had in a fifth of the time that its 512 small
// ones take, and an access through it finds its address sooner; but it is present as a whole. So
// they are for heaps that are large already, of which another one is a small share, and for pages
// of blocks, which are filled one after the other, where what came before is in use all over: every
// sixteenth, a sample, keeps small OS pages, which tell.
#include "../base/facts.h"
#include "../base/options.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "arena.h"

#define PRESENT_SHARE 32  // of what is present, that a large OS page may be
#define SAMPLE_EVERY ((size_t)16)
#define SAMPLE_AGE ((size_t)2)  // the large OS pages behind it that were begun
#define SAMPLE_QUARTERS 3       // of a sample are present

static size_t large_slices(void) { return mx_facts.large_page / MX_SLICE_SIZE; }

// The number of an arena's first slice, counted from address 0.
static size_t first_of(const mx_arena_t* arena) { return (uintptr_t)arena->start / MX_SLICE_SIZE; }

size_t mx_arena_large_end(const mx_arena_t* arena, size_t index) {
  mx_check(mx_facts.large_page != 0);
  return mx_align_up(first_of(arena) + index, large_slices()) - first_of(arena);
}

bool mx_arena_grows_by_large(const mx_arena_t* arena, size_t count) {
  if (MX_SCATTER || large_slices() == 0 || mx_option(allow_thp) != 1) return false;
  if (count > MX_MEDIUM_PAGE_SLICES || arena->is_reserved || mx_os_is_scarce()) return false;
  const size_t limit = mx_load_relaxed(&mx_memory_limit.bytes);
  if (limit != 0 && !mx_memory_limit_room(limit - limit / 8, mx_facts.large_page)) return false;
  const int64_t present = mx_load_relaxed(&mx_process_counters.committed.current);
  return present / PRESENT_SHARE >= (int64_t)mx_facts.large_page;
}

// Whether the last sample before a large OS page is in use all over.
static bool is_expected_full(const mx_arena_t* arena, size_t number) {
  const size_t sample = mx_align_down(number - SAMPLE_AGE, SAMPLE_EVERY) * large_slices();
  if (sample < first_of(arena)) return false;
  const size_t at = sample - first_of(arena);
  if (mx_bits_count(arena->committed, at, large_slices()) < large_slices()) return false;
  return !mx_os_is_sparse(mx_arena_slice(arena, at), mx_facts.large_page, SAMPLE_QUARTERS);
}

void mx_arena_fill_large(mx_arena_t* arena, size_t index, size_t end) {
  mx_check(index < end && end <= arena->slices);
  const size_t first = mx_arena_large_end(arena, index);
  const size_t number = (first_of(arena) + first) / large_slices();
  if (first + large_slices() > end || !is_expected_full(arena, number)) return;
  uint8_t* const p = mx_arena_slice(arena, first);
  // A sample is told to have none, as those beside it are then: so all stay one mapping.
  if (number % SAMPLE_EVERY == 0) mx_os_refuse_large(p, mx_facts.large_page);
  else if (mx_os_fill_large(p, mx_facts.large_page)) mx_arena_touch(arena, p, mx_facts.large_page);
}

static void drop_fresh(mx_arena_t* arena, size_t index) {
  uint8_t* const start = mx_arena_slice(arena, index);
  if (!mx_arena_is_present(arena, start, MX_SLICE_SIZE)) return;
  if (!mx_arena_claim_mapped(arena, index, 1)) return;
  mx_check(!mx_bits_test(arena->free, index) && mx_bits_test(arena->committed, index));
  // Whatever used the slice meanwhile has let go of it, too.
  mx_arena_discard(arena, start, MX_SLICE_SIZE);
  mx_arena_put_back(arena, index, 1);
}

void mx_arena_drop_fresh(mx_arena_t* arena) {
  if (MX_SCATTER || arena->is_reserved) return;
  for (size_t i = 0; i < arena->slices; i += MX_WORD_BITS) {
    const size_t word = i / MX_WORD_BITS;
    uint64_t fresh = mx_load_relaxed(&arena->free[word]) &
                     mx_load_relaxed(&arena->committed[word]) &
                     ~mx_load_relaxed(&arena->dirty[word]);
    for (; fresh != 0; fresh &= fresh - 1) drop_fresh(arena, i + mx_bit_low(fresh));
  }
}
