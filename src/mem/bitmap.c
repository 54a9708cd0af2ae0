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

size_t mx_bits_find_in(uint64_t word, size_t n) {
  for (size_t have = 1; have < n;) {
    const size_t step = mx_min(have, n - have);
    word &= word >> step;
    have += step;
  }
  return word == 0 ? SIZE_MAX : mx_bit_low(word);
}

// Where a run of `n` set bits begins that ends in a word, counted from the first of the `*before`
// bits that are set in front of it; or SIZE_MAX, and `*before` is how many are set at its end.
mx_inline size_t search_word(uint64_t word, size_t n, size_t* before) {
  const size_t low = (~word == 0 ? MX_WORD_BITS : mx_bit_low(~word));
  if (*before + low >= n) return 0;
  const size_t found = (n < MX_WORD_BITS ? mx_bits_find_in(word, n) : SIZE_MAX);
  if (found != SIZE_MAX) return *before + found;
  *before = (low == MX_WORD_BITS ? *before + low : MX_WORD_BITS - 1 - mx_bit_high(~word));
  return SIZE_MAX;
}

static size_t find_anywhere(const mx_bits_t* a, const mx_bits_t* b, size_t bits, size_t n,
                            size_t from) {
  uint64_t wanted = ~(uint64_t)0 << from % MX_WORD_BITS;
  size_t before = 0;
  const size_t end = mx_div_up(bits, MX_WORD_BITS);
  for (size_t i = from / MX_WORD_BITS; i < end; i++, wanted = ~(uint64_t)0) {
    uint64_t word = mx_load_relaxed(&a[i]) & wanted;
    if (b != NULL) word &= mx_load_relaxed(&b[i]);
    if (word == 0) {
      before = 0;
      // Where little of an arena waits, that is most of a search.
      while (b != NULL && i + 1 < end &&
             (mx_load_relaxed(&a[i + 1]) & mx_load_relaxed(&b[i + 1])) == 0) {
        i++;
      }
      continue;
    }
    const size_t found = search_word(word, n, &before);
    if (found == SIZE_MAX) continue;
    const size_t first = i * MX_WORD_BITS - before + found;
    return first + n <= bits ? first : SIZE_MAX;
  }
  return SIZE_MAX;
}

size_t mx_bits_find_run(const mx_bits_t* a, const mx_bits_t* b, size_t bits, size_t n, size_t from,
                        size_t align, size_t offset) {
  for (;;) {
    const size_t first = find_anywhere(a, b, bits, n, from);
    if (first == SIZE_MAX) return SIZE_MAX;
    from = mx_align_up(first + offset, align) - offset;
    if (from == first) return first;
  }
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
