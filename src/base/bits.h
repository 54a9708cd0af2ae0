// SPDX-License-Identifier: MIT
// Arithmetic on words: powers of two, rounding, single bits, bit scans, checked products.
#ifndef MX_BASE_BITS_H
#define MX_BASE_BITS_H

#include "config.h"

mx_inline bool mx_is_pow2(size_t x) { return x != 0 && (x & (x - 1)) == 0; }

mx_inline size_t mx_align_up(size_t x, size_t align) { return (x + align - 1) & ~(align - 1); }

mx_inline size_t mx_align_down(size_t x, size_t align) { return x & ~(align - 1); }

mx_inline size_t mx_div_up(size_t x, size_t y) { return (x + y - 1) / y; }

mx_inline bool mx_is_aligned(const void* p, size_t align) {
  return ((uintptr_t)p & (align - 1)) == 0;
}

mx_inline size_t mx_min(size_t a, size_t b) { return a < b ? a : b; }

mx_inline size_t mx_max(size_t a, size_t b) { return a > b ? a : b; }

// Of an array of words, bit number i. Not for bits that threads share: see mem/bitmap.h.
mx_inline void mx_set_bit(uint64_t* words, size_t i) { words[i / 64] |= (uint64_t)1 << (i % 64); }

mx_inline void mx_clear_bit(uint64_t* words, size_t i) {
  words[i / 64] &= ~((uint64_t)1 << (i % 64));
}

mx_inline bool mx_has_bit(const uint64_t* words, size_t i) {
  return (words[i / 64] >> (i % 64) & 1) != 0;
}

// Where in the i-th of several parts of `step` bytes to look, at whole units: no stride of what
// lies there meets all of them.
mx_inline size_t mx_look_at(size_t i, size_t step, size_t unit) {
  return i * step + (i * 37 + 5) % 64 * unit % step;
}

#if defined(__GNUC__) || defined(__clang__)
// Index of the highest set bit; x must not be 0.
mx_inline unsigned mx_bit_high(uint64_t x) {
  return (unsigned)(8 * sizeof(unsigned long long) - 1) - (unsigned)__builtin_clzll(x);
}
// Index of the lowest set bit; x must not be 0.
mx_inline unsigned mx_bit_low(uint64_t x) { return (unsigned)__builtin_ctzll(x); }
mx_inline bool mx_mul_overflow(size_t a, size_t b, size_t* total) {
  return __builtin_mul_overflow(a, b, total);
}
#else
mx_inline unsigned mx_bit_low(uint64_t x) {
  unsigned n = 0;
  while ((x & 1) == 0) { x >>= 1; n++; }
  return n;
}
mx_inline unsigned mx_bit_high(uint64_t x) {
  unsigned n = 0;
  while (x >>= 1) n++;
  return n;
}
mx_inline bool mx_mul_overflow(size_t a, size_t b, size_t* total) {
  *total = a * b;
  return b != 0 && a > SIZE_MAX / b;
}
#endif

#ifndef mx_popcount  // proofs have one of their own
mx_inline unsigned mx_popcount(uint64_t x) {
#if defined(__POPCNT__) || defined(__aarch64__)
  return (unsigned)__builtin_popcountll(x);
#else
  // The compiler would call a function, which costs more than a few ones do.
  unsigned n = 0;
  for (; x != 0; x &= x - 1) n++;
  return n;
#endif
}
#endif

#endif
