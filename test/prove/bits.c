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

// Whether bits behind each other are all set, in words that hold the run.
static bool are_set(const uint64_t* words, size_t first, size_t n) {
  for (size_t w = 0; w < 2; w++) {
    const size_t from = (first > 64 * w ? first - 64 * w : 0);
    const size_t to = (first + n > 64 * w ? first + n - 64 * w : 0);
    const uint64_t mask = ones_below(to) & ~ones_below(from);
    if ((words[w] & mask) != mask) return false;
  }
  return true;
}

static size_t prove_end, prove_align, prove_offset;

// Whether a run that begins at a bit would do.
static bool does(const uint64_t* words, size_t at) {
  return at + prove_n <= prove_end && ((at + prove_offset) & (prove_align - 1)) == 0 &&
         are_set(words, at, prove_n);
}

// What a search may have come to: `some` stands for all places before those that it looks at now.
static bool is_on_its_way(const search_t* s, const uint64_t* words, size_t from, size_t some) {
  const size_t aligned = mx_align_up(s->start + prove_offset, prove_align) - prove_offset;
  return from <= s->start && s->start <= s->i && s->i <= prove_end + 64 &&
         (s->start == s->i || (s->i <= prove_end && are_set(words, s->start, s->i - s->start))) &&
         aligned + prove_n > s->i && !(some < s->start && does(words, some));
}

// prove: each step of the search for a run keeps what it knows and comes further, until it has the
//   lowest one that is set and aligned, or there is none
// bound: all bits, places, lengths and alignments over two words
// unwind: 3
// builds: release64 release32
// long: yes
// mutant: mem/bitmap.c: s->start = s->i += (word == 0 => s->i += (word == 0
void prove_bits_find_run(void) {
  any_run();
  const uint64_t words[2] = {prove_bits[0], prove_bits[1]};
  const size_t from = any_size(0, PLAIN_BITS), some = any_size(from, PLAIN_BITS);
  prove_end = any_size(0, PLAIN_BITS);
  prove_align = (size_t)1 << any_size(0, 7);
  prove_offset = any_size(0, PLAIN_BITS);
  search_t s = {from, from};
  if (from < prove_end) claim(is_on_its_way(&s, words, from, some));  // as it begins
  s.start = any_size(0, PLAIN_BITS);
  s.i = any_size(0, PLAIN_BITS);
  assume(s.i < prove_end && is_on_its_way(&s, words, from, some));
  const size_t before = s.i;
  const size_t found = search_on(&s, prove_bits[before / 64], prove_end, prove_n, prove_align, prove_offset);
  if (found != SIZE_MAX) {
    claim(found >= from && does(words, found) && !(some < found && does(words, some)));
    return;
  }
  claim(s.i > before && is_on_its_way(&s, words, from, some));
  claim(s.i < prove_end || !does(words, some));
}
