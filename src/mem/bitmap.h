// SPDX-License-Identifier: MIT
// Atomic bitmaps: words of 64 bits that several threads claim runs of bits from without a
// lock. A claimed run belongs to its claimer alone; a run that spans words is claimed word by word
// and given back when a later word was lost to another thread.
#ifndef MX_MEM_BITMAP_H
#define MX_MEM_BITMAP_H

#include "../base/atomic.h"
#include "../base/bits.h"

typedef mx_atomic(uint64_t) mx_bits_t;

#define MX_WORD_BITS ((size_t)64)

MX_BEGIN_DECLS
// The lowest bit of a word from which on n bits are set, 1 <= n <= 64; SIZE_MAX when there is none.
size_t mx_bits_find_in(uint64_t word, size_t n);
// Finds the lowest run of `n` bits that are set in `a` (and in `b`, unless NULL) among the first
// `bits`, at or after `from`, whose first bit + offset is a multiple of `align`. Only a look: the
// run may be gone when the caller claims it. SIZE_MAX when there is none.
size_t mx_bits_find_run(const mx_bits_t* a, const mx_bits_t* b, size_t bits, size_t n, size_t from,
                        size_t align, size_t offset);
// The highest bit below `below` that is set; SIZE_MAX when there is none.
size_t mx_bits_find_last(const mx_bits_t* a, size_t below);
// The lowest bit from `from` on that is clear, of the first `bits`; `bits` when there is none.
size_t mx_bits_next_clear(const mx_bits_t* a, size_t bits, size_t from);
// Clears a run that must be all set: true, or false with nothing changed.
bool mx_bits_try_claim(mx_bits_t* a, size_t first, size_t n);
// Sets a run; answers how many of the bits were clear before.
size_t mx_bits_set(mx_bits_t* a, size_t first, size_t n);
// Clears a run; answers how many of the bits were set before.
size_t mx_bits_clear(mx_bits_t* a, size_t first, size_t n);
// How many bits of a run are set.
size_t mx_bits_count(const mx_bits_t* a, size_t first, size_t n);
MX_END_DECLS

mx_inline bool mx_bits_test(const mx_bits_t* a, size_t i) {
  return (mx_load_relaxed(&a[i / MX_WORD_BITS]) >> (i % MX_WORD_BITS)) & 1;
}

#endif
