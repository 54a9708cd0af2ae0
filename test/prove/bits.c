// SPDX-License-Identifier: MIT
// Proves of the bitmaps: each verb against a plain specification, over two words.
#include "base/compiler.h"

// Counting the ones of a word is the processor's; a proof needs only that equal words have equally
// many, and runs of ones as many as they are long.
static unsigned ones_of(unsigned long long x);
#define mx_popcount(x) ones_of(x)

#include "mem/bitmap.c"

unsigned __CPROVER_uninterpreted_ones(unsigned long long);

static unsigned ones_of(unsigned long long x) {
  if (x == 0) return 0;
  const unsigned low = mx_bit_low(x), high = mx_bit_high(x);
  if ((x & (x + ((unsigned long long)1 << low))) == 0) return high - low + 1;
  return __CPROVER_uninterpreted_ones(x);
}

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

// The ones of a run of these words.
static size_t count_of(uint64_t low, uint64_t high, size_t first, size_t n) {
  const size_t end = first + n;
  const uint64_t from_low = (first < 64 ? ~ones_below(first) : 0);
  const uint64_t from_high = (first < 64 ? UINT64_MAX : ~ones_below(first - 64));
  return (size_t)ones_of(low & from_low & ones_below(end)) +
         ones_of(high & from_high & (end <= 64 ? 0 : ones_below(end - 64)));
}

static void counts_from(size_t first) {
  any_bits();
  const uint64_t low = prove_bits[0], high = prove_bits[1];
  const size_t n = any_size(1, PLAIN_BITS - first);
  const size_t ones = count_of(low, high, first, n);
  claim(mx_bits_count(prove_bits, first, n) == ones);
  if (nondet_bool()) claim(mx_bits_clear(prove_bits, first, n) == ones);
  else claim(mx_bits_set(prove_bits, first, n) == count_of(~low, ~high, first, n));
}

// prove: count, set and clear answer how many bits they found or changed
// bound: all bits and lengths over two words, from the bits 0, 1, 31, 63, 64 and 100
// unwind: 3
// builds: release64 release32
// long: yes
// mutant: mem/bitmap.c: set == mask ? length => set != 0 ? length
void prove_bits_count(void) {
  switch (nondet_uint8()) {
    case 0: counts_from(0); break;
    case 1: counts_from(1); break;
    case 2: counts_from(31); break;
    case 3: counts_from(63); break;
    case 4: counts_from(64); break;
    default: counts_from(100); break;
  }
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

// Where bits change, from the first on.
static unsigned changes_of(const uint64_t* words, size_t most) {
  unsigned count = 0;
  uint64_t low = words[0] ^ (words[0] << 1), high = words[1] ^ (words[1] << 1 | words[0] >> 63);
  low &= ~(uint64_t)1;
  for (size_t i = 0; i <= most && (low | high) != 0; i++) {
    if (low != 0) low &= low - 1;
    else high &= high - 1;
    count++;
  }
  return count;
}

static void find_run(size_t changes) {
  any_bits();
  prove_others[0] = nondet_uint64();
  prove_others[1] = nondet_uint64();
  const bool both = nondet_bool();
  const uint64_t words[2] = {prove_bits[0] & (both ? prove_others[0] : UINT64_MAX),
                             prove_bits[1] & (both ? prove_others[1] : UINT64_MAX)};
  assume(changes_of(words, changes) <= changes);
  const size_t bits = any_size(0, PLAIN_BITS), n = any_size(1, PLAIN_BITS);
  const size_t from = any_size(0, PLAIN_BITS), offset = any_size(0, 127);
  const size_t align = (size_t)1 << any_size(0, 7);
  const size_t found =
      mx_bits_find_run(prove_bits, both ? prove_others : NULL, bits, n, from, align, offset);
  if (found != SIZE_MAX) {
    claim(found >= from && n <= bits && found <= bits - n);
    claim((found + offset) % align == 0);
    claim(are_set(words, found, n));
  }
  // What lies lower does not do.
  const size_t other = any_size(0, PLAIN_BITS);
  assume(other >= from && other < found && n <= bits && other <= bits - n);
  assume((other + offset) % align == 0);
  claim(!are_set(words, other, n));
}

// prove: the search finds the lowest run that is set in both maps and aligned, and one where
//   there is one
// bound: all places, lengths and alignments over two words, bits that change twice
// unwind: 7
// builds: release64 release32
// long: yes
// mutant: mem/bitmap.c: if (aligned + n <= i) return aligned; => if (aligned + n <= i) return start;
void prove_bits_find_run(void) { find_run(2); }

// prove: the same where bits change more often
// bound: all places, lengths and alignments over two words, bits that change six times
// unwind: 11
// builds: release64 release32
// long: yes
// mutant: mem/bitmap.c: if (i % MX_WORD_BITS != 0) start = ++i; => if (i % MX_WORD_BITS != 0) ++i;
void prove_bits_find_run_more(void) { find_run(6); }
