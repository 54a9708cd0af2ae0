// SPDX-License-Identifier: MIT
// Proves of the bitmaps: each verb against a plain specification, over two words.
#include "base/compiler.h"

// Counting the ones of a word is the processor's, and stands open here: a proof needs only that equal
// words have equally many, and what it says of a mask itself (masks-count).
unsigned __CPROVER_uninterpreted_ones(unsigned long long);
#define mx_popcount(x) __CPROVER_uninterpreted_ones(x)

#include "mem/bitmap.c"

#define PLAIN_BITS ((size_t)128)

static mx_bits_t prove_bits[2], prove_others[2];
static size_t prove_first, prove_n, prove_some;

static void any_bits(void) {
  prove_bits[0] = nondet_uint64();
  prove_bits[1] = nondet_uint64();
}

// Any bits, any run of them, and any one bit, for which it is then shown what becomes of it.
static void any_run(void) {
  any_bits();
  prove_n = any_size(1, PLAIN_BITS);
  prove_first = any_size(0, PLAIN_BITS - prove_n);
  prove_some = any_size(0, PLAIN_BITS - 1);
}

static bool is_in_run(size_t i) { return i >= prove_first && i < prove_first + prove_n; }

// prove: set changes the bits of a run to ones, and no others
// bound: all bits, places and lengths over two words
// unwind: 3
// builds: release64 release32
// mutant: mem/bitmap.c: << first % MX_WORD_BITS; => << (first & 31);
void prove_bits_set(void) {
  any_run();
  const bool was = mx_bits_test(prove_bits, prove_some);
  mx_bits_set(prove_bits, prove_first, prove_n);
  claim(mx_bits_test(prove_bits, prove_some) == (was || is_in_run(prove_some)));
}

// prove: clear changes the bits of a run to zeros, and no others
// bound: all bits, places and lengths over two words
// unwind: 3
// builds: release64 release32
// mutant: mem/bitmap.c: mx_and_acq_rel(&a[first / MX_WORD_BITS], ~mask) => mx_and_acq_rel(&a[first / MX_WORD_BITS], mask)
void prove_bits_clear(void) {
  any_run();
  const bool was = mx_bits_test(prove_bits, prove_some);
  mx_bits_clear(prove_bits, prove_first, prove_n);
  claim(mx_bits_test(prove_bits, prove_some) == (was && !is_in_run(prove_some)));
}

// prove: a claim takes the whole run or nothing, and nothing only if a bit of it is clear
// bound: all bits, places and lengths over two words, one failed exchange in a row
// unwind: 3
// builds: release64 release32
// long: yes
// mutant: mem/bitmap.c: mx_bits_set(a, first, i - first) => mx_bits_set(a, first, n)
void prove_bits_claim(void) {
  any_run();
  const bool was = mx_bits_test(prove_bits, prove_some);
  const bool is_whole = nondet_bool();
  if (is_whole) mx_bits_set(prove_bits, prove_first, prove_n);
  const bool done = mx_bits_try_claim(prove_bits, prove_first, prove_n);
  claim(done || !is_whole);
  if (is_whole) return;
  claim(!done || !is_in_run(prove_some) || was);
  claim(mx_bits_test(prove_bits, prove_some) == (was && !(done && is_in_run(prove_some))));
}

static uint64_t ones_below(size_t i) { return i >= 64 ? UINT64_MAX : ((uint64_t)1 << i) - 1; }

// The ones of a word, counted.
static unsigned counted(uint64_t x) {
  x -= x >> 1 & 0x5555555555555555;
  x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
  x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
  x += x >> 8;
  x += x >> 16;
  return (x + (x >> 32)) & 0x7f;
}

// prove: the mask of a run's part has as many ones as the part is long, and lies where the part does
// bound: all places in a word, all lengths
// builds: release64 release32
// mutant: mem/bitmap.c: >> (MX_WORD_BITS - length)) << => >> (MX_WORD_BITS - 1 - length)) <<
void prove_masks_count(void) {
  const size_t first = any_size(0, PLAIN_BITS), n = any_size(1, PLAIN_BITS);
  const size_t length = part_length(first, n), place = first % 64;
  claim(length >= 1 && length <= n && place + length <= 64);
  const uint64_t mask = part_mask(first, length);
  claim(mask == (ones_below(place + length) & ~ones_below(place)));
  claim(counted(mask) == length);
}

// The ones of a run of these words. Of the masks that part_mask makes of the run it is known how many
// ones they have.
static size_t count_of(uint64_t low, uint64_t high, size_t first, size_t n) {
  const size_t end = first + n;
  size_t count = 0;
  if (first < 64) {
    const uint64_t mask = ones_below(end) & ~ones_below(first);
    assume(mx_popcount(mask) == (end < 64 ? end : 64) - first);
    count += mx_popcount(low & mask);
  }
  if (end > 64) {
    const uint64_t mask = ones_below(end - 64) & ~ones_below(first < 64 ? 0 : first - 64);
    assume(mx_popcount(mask) == end - (first < 64 ? 64 : first));
    count += mx_popcount(high & mask);
  }
  return count;
}

// prove: count answers how many bits of a run are ones
// bound: all bits, places and lengths over two words
// unwind: 3
// builds: release64 release32
// mutant: mem/bitmap.c: count += part_count(mask & => count += part_count(
void prove_bits_count(void) {
  any_run();
  const size_t ones = count_of(prove_bits[0], prove_bits[1], prove_first, prove_n);
  claim(mx_bits_count(prove_bits, prove_first, prove_n) == ones);
}

// prove: set answers how many bits it changed
// bound: all bits, places and lengths over two words
// unwind: 3
// builds: release64 release32
// mutant: mem/bitmap.c: part_count(clear, mask, length) => length
void prove_bits_set_count(void) {
  any_run();
  const size_t zeros = count_of(~prove_bits[0], ~prove_bits[1], prove_first, prove_n);
  claim(mx_bits_set(prove_bits, prove_first, prove_n) == zeros);
}

// prove: clear answers how many bits it changed
// bound: all bits, places and lengths over two words
// unwind: 3
// builds: release64 release32
// mutant: mem/bitmap.c: set == mask ? length => set != 0 ? length
void prove_bits_clear_count(void) {
  any_run();
  const size_t ones = count_of(prove_bits[0], prove_bits[1], prove_first, prove_n);
  claim(mx_bits_clear(prove_bits, prove_first, prove_n) == ones);
}

static size_t prove_before;

// Whether a run does that begins at a bit of the word or of the ones in front of it.
static bool does(uint64_t word, size_t at) {
  const size_t end = at + prove_n;
  if (end > prove_before + 64) return false;
  const size_t from = (at > prove_before ? at - prove_before : 0);
  const size_t to = (end > prove_before ? end - prove_before : 0);
  const uint64_t mask = ones_below(to) & ~ones_below(from);
  return (word & mask) == mask;
}

// prove: each word that a search for a run comes to ends the lowest one there is, or none, and then it
//   says how many ones are at its end
// bound: all words, lengths to three words behind as many ones as are less
// unwind: 8
// builds: release64 release32
// mutant: mem/bitmap.c: if (*before + low >= n) return 0; => if (low >= n) return 0;
void prove_bits_find_run(void) {
  const uint64_t word = nondet_uint64();
  prove_n = any_size(1, 192);
  prove_before = any_size(0, 128);
  assume(prove_before < prove_n);
  const size_t some = any_size(0, 192);
  size_t before = prove_before;
  const size_t found = search_word(word, prove_n, &before);
  if (found != SIZE_MAX) {
    claim(does(word, found) && before == prove_before && !(some < found && does(word, some)));
    return;
  }
  claim(!does(word, some) && before < prove_n);
  if (word == ~(uint64_t)0) claim(before == prove_before + 64);
  else claim(before < 64 && (~word >> (63 - before)) == 1);
}

// prove: the search finds the lowest run that is set in both bitmaps and aligned, or there is none
// bound: all bits, lengths and alignments over five bits
// unwind: 8
// builds: release64 release32
// mutant: mem/bitmap.c: if (from == first) return first; => return first;
void prove_bits_find_aligned(void) {
  any_bits();
  prove_others[0] = nondet_uint64();
  const size_t bits = any_size(0, 5), n = any_size(1, 5);
  const size_t from = any_size(0, 5), some = any_size(from, 5);
  const size_t align = (size_t)1 << any_size(0, 3), offset = any_size(0, 8);
  const uint64_t both = prove_bits[0] & prove_others[0], run = ones_below(n);
  const bool some_does = (some + n <= bits && (some + offset) % align == 0 &&
                          (both >> some & run) == run);
  const size_t found = mx_bits_find_run(prove_bits, prove_others, bits, n, from, align, offset);
  if (found == SIZE_MAX) {
    claim(!some_does);
    return;
  }
  claim(found >= from && found + n <= bits && (found + offset) % align == 0);
  claim((both >> found & run) == run && !(some < found && some_does));
}
