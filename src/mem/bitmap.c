// SPDX-License-Identifier: MIT
// The search and the claim of runs in atomic bitmaps.
#include "bitmap.h"

// The part of a run that lies in one word: its length in bits and its mask. Mostly it is the run.
mx_inline size_t part_length(size_t first, size_t n) {
  return mx_min(n, MX_WORD_BITS - first % MX_WORD_BITS);
}

mx_inline uint64_t part_mask(size_t first, size_t length) {
  return (~(uint64_t)0 >> (MX_WORD_BITS - length)) << first % MX_WORD_BITS;
}

mx_inline size_t part_count(uint64_t set, uint64_t mask, size_t length) {
  return set == mask ? length : mx_popcount(set);
}

// A search has come to bit `i`. From `start` on to there all bits are set, which is not enough, and
// no run that would do begins before `start`.
typedef struct search_s {
  size_t start, i;
} search_t;

// Goes on by the zeros or the ones that come next in a word: the start of a run that does, if that
// makes one, else SIZE_MAX.
mx_inline size_t search_on(search_t* s, uint64_t word, size_t bits, size_t n, size_t align,
                           size_t offset) {
  const size_t shift = s->i % MX_WORD_BITS;
  word >>= shift;
  if ((word & 1) == 0) {
    s->start = s->i += (word == 0 ? MX_WORD_BITS - shift : mx_bit_low(word));
    return SIZE_MAX;
  }
  s->i = mx_min(s->i + (~word == 0 ? MX_WORD_BITS : mx_bit_low(~word)), bits);
  const size_t aligned = mx_align_up(s->start + offset, align) - offset;
  if (aligned + n <= s->i) return aligned;
  if (s->i % MX_WORD_BITS != 0) s->start = ++s->i;  // a clear bit follows
  return SIZE_MAX;
}

size_t mx_bits_find_run(const mx_bits_t* a, const mx_bits_t* b, size_t bits, size_t n, size_t from,
                        size_t align, size_t offset) {
  search_t search = {from, from};
  while (search.i < bits) {
    uint64_t word = mx_load_relaxed(&a[search.i / MX_WORD_BITS]);
    if (b != NULL) word &= mx_load_relaxed(&b[search.i / MX_WORD_BITS]);
    const size_t found = search_on(&search, word, bits, n, align, offset);
    if (found != SIZE_MAX) return found;
  }
  return SIZE_MAX;
}

size_t mx_bits_find_last(const mx_bits_t* a, size_t below) {
  while (below > 0) {
    const size_t word = (below - 1) / MX_WORD_BITS, in_word = below - word * MX_WORD_BITS;
    uint64_t bits = mx_load_relaxed(&a[word]);
    if (in_word < MX_WORD_BITS) bits &= ((uint64_t)1 << in_word) - 1;
    if (bits != 0) return word * MX_WORD_BITS + mx_bit_high(bits);
    below = word * MX_WORD_BITS;
  }
  return SIZE_MAX;
}

size_t mx_bits_next_clear(const mx_bits_t* a, size_t bits, size_t from) {
  while (from < bits) {
    const uint64_t clear = ~mx_load_relaxed(&a[from / MX_WORD_BITS]) >> from % MX_WORD_BITS;
    if (clear != 0) return mx_min(from + mx_bit_low(clear), bits);
    from = mx_align_up(from + 1, MX_WORD_BITS);
  }
  return bits;
}

bool mx_bits_try_claim(mx_bits_t* a, size_t first, size_t n) {
  for (size_t i = first, length; i < first + n; i += length) {
    length = part_length(i, first + n - i);
    const uint64_t mask = part_mask(i, length);
    uint64_t old = mx_load_relaxed(&a[i / MX_WORD_BITS]);
    do {
      if ((old & mask) != mask) {
        if (i > first) mx_bits_set(a, first, i - first);
        return false;
      }
    } while (!mx_cas_weak_acq_rel(&a[i / MX_WORD_BITS], &old, old & ~mask));
  }
  return true;
}

size_t mx_bits_set(mx_bits_t* a, size_t first, size_t n) {
  size_t changed = 0;
  for (size_t end = first + n, length; first < end; first += length) {
    length = part_length(first, end - first);
    const uint64_t mask = part_mask(first, length);
    const uint64_t clear = mask & ~mx_or_acq_rel(&a[first / MX_WORD_BITS], mask);
    changed += part_count(clear, mask, length);
  }
  return changed;
}

size_t mx_bits_clear(mx_bits_t* a, size_t first, size_t n) {
  size_t changed = 0;
  for (size_t end = first + n, length; first < end; first += length) {
    length = part_length(first, end - first);
    const uint64_t mask = part_mask(first, length);
    const uint64_t set = mask & mx_and_acq_rel(&a[first / MX_WORD_BITS], ~mask);
    changed += part_count(set, mask, length);
  }
  return changed;
}

size_t mx_bits_count(const mx_bits_t* a, size_t first, size_t n) {
  size_t count = 0;
  for (size_t end = first + n, length; first < end; first += length) {
    length = part_length(first, end - first);
    const uint64_t mask = part_mask(first, length);
    count += part_count(mask & mx_load_relaxed(&a[first / MX_WORD_BITS]), mask, length);
  }
  return count;
}
