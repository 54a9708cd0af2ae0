// SPDX-License-Identifier: MIT
// The search and the claim of runs in atomic bitmaps.
#include "bitmap.h"

// The part of a run that lies in one word: its word, mask, and length in bits.
typedef struct part_s {
  size_t word, length;
  uint64_t mask;
} part_t;

static part_t part_at(size_t first, size_t n) {
  part_t p;
  const size_t shift = first % MX_WORD_BITS;
  p.word = first / MX_WORD_BITS;
  p.length = mx_min(n, MX_WORD_BITS - shift);
  p.mask = (p.length == MX_WORD_BITS ? ~(uint64_t)0 : (((uint64_t)1 << p.length) - 1)) << shift;
  return p;
}

size_t mx_bits_find_run(const mx_bits_t* a, const mx_bits_t* b, size_t bits, size_t n, size_t from,
                        size_t align, size_t offset) {
  size_t start = from;  // where the current run of set bits begins
  size_t i = from;
  while (i < bits) {
    uint64_t word = mx_load_relaxed(&a[i / MX_WORD_BITS]);
    if (b != NULL) word &= mx_load_relaxed(&b[i / MX_WORD_BITS]);
    const size_t shift = i % MX_WORD_BITS;
    word >>= shift;
    if (word == 0) {  // nothing here: the run ends
      i += MX_WORD_BITS - shift;
      start = i;
      continue;
    }
    if ((word & 1) == 0) {
      i += mx_bit_low(word);
      start = i;
      continue;
    }
    const size_t ones = (~word == 0 ? MX_WORD_BITS : mx_bit_low(~word));
    i = mx_min(i + ones, bits);
    const size_t aligned = mx_align_up(start + offset, align) - offset;
    if (aligned + n <= i) return aligned;
    if (i % MX_WORD_BITS != 0) start = ++i;  // a clear bit follows
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

bool mx_bits_try_claim(mx_bits_t* a, size_t first, size_t n) {
  size_t done = 0;
  while (done < n) {
    const part_t p = part_at(first + done, n - done);
    uint64_t old = mx_load_relaxed(&a[p.word]);
    do {
      if ((old & p.mask) != p.mask) {
        if (done > 0) mx_bits_set(a, first, done);
        return false;
      }
    } while (!mx_cas_weak_acq_rel(&a[p.word], &old, old & ~p.mask));
    done += p.length;
  }
  return true;
}

size_t mx_bits_set(mx_bits_t* a, size_t first, size_t n) {
  size_t changed = 0;
  for (size_t done = 0; done < n;) {
    const part_t p = part_at(first + done, n - done);
    const uint64_t clear = p.mask & ~mx_or_acq_rel(&a[p.word], p.mask);
    changed += (clear == p.mask ? p.length : mx_popcount(clear));
    done += p.length;
  }
  return changed;
}

size_t mx_bits_clear(mx_bits_t* a, size_t first, size_t n) {
  size_t changed = 0;
  for (size_t done = 0; done < n;) {
    const part_t p = part_at(first + done, n - done);
    changed += mx_popcount(p.mask & mx_and_acq_rel(&a[p.word], ~p.mask));
    done += p.length;
  }
  return changed;
}

size_t mx_bits_count(const mx_bits_t* a, size_t first, size_t n) {
  size_t count = 0;
  for (size_t done = 0; done < n;) {
    // Long runs are mostly all set: words of them are passed over as fast as they are read.
    if ((first + done) % MX_WORD_BITS == 0) {
      const mx_bits_t* word = &a[(first + done) / MX_WORD_BITS];
      while (n - done >= MX_WORD_BITS && mx_load_relaxed(word) == UINT64_MAX) {
        word++;
        done += MX_WORD_BITS;
        count += MX_WORD_BITS;
      }
      if (done == n) break;
    }
    const part_t p = part_at(first + done, n - done);
    const uint64_t set = p.mask & mx_load_relaxed(&a[p.word]);
    if (set != 0) count += (set == p.mask ? p.length : mx_popcount(set));
    done += p.length;
  }
  return count;
}
