// SPDX-License-Identifier: MIT
// What is in freed blocks: zeroes, in builds that clear them.
//
//      block - 8      block    block + 8                  block + block_size - 8
//        | canary       | link   | zeroes, MX_CLEAR_MOST at most | whatever | next canary
//
// A free clears the block before its canary says that it is free. A block that was never freed,
// or was not cleared, is told from that by its canary, and may hold anything. So what is not
// zero in a free block was written there after the free. That is looked for in the bytes that are
// asked for when the block is used again, and in all of them when its page is verified as a whole.
//
// Of small blocks MX_CLEAR_SHORT bytes are cleared, always. Of larger ones as much as there is, to
// MX_CLEAR_MOST, as long as that takes no more than a part of the thread's time; else as much as of
// small ones, unverified. A program that does more than to allocate does not get there.
#ifndef MX_PAGE_CLEAR_H
#define MX_PAGE_CLEAR_H

#include <string.h>

#include "padding.h"

// Blocks of so many bytes are cleared and verified in place, without a call.
#define MX_CLEAR_PLAIN MX_SMALL_MAX

mx_static_assert(MX_CLEAR_MOST % MX_ALIGN == 0 && MX_CLEAR_MOST > MX_CLEAR_PLAIN, "in twos");
mx_static_assert(MX_CLEAR_SHORT == MX_ALIGN, "it is one step");

MX_BEGIN_DECLS
// Clears n bytes behind the link of a larger block; false when that would take too much time, and
// only the first ones are.
bool mx_clear_larger(uint8_t* p, size_t n);
// Reports a free block that was written to; false when it was not.
bool mx_clear_report(const mx_page_t* page, const void* block);
MX_END_DECLS

// How many bytes of such blocks are cleared behind the link, a multiple of 16.
mx_inline size_t mx_clear_size(size_t block_size) {
  const size_t most = (block_size > MX_CLEAR_PLAIN ? MX_CLEAR_MOST : MX_CLEAR_SHORT);
  return mx_min(block_size - MX_ALIGN, most);
}

// Two words, which the processor can clear at once.
typedef struct mx_two_s {
  uint64_t a, b;
} mx_two_t;

mx_inline uint64_t mx_two_bits(const uint8_t* p) {
  mx_two_t two;
  memcpy(&two, p, sizeof(two));
  return two.a | two.b;
}

// Whether n bytes are clear, at least 64: in steps of 64 bytes, the last of which may overlap the
// one before.
mx_inline bool mx_is_clear_long(const uint8_t* p, size_t n) {
  mx_check(n >= 64);
  const uint8_t* const last = p + n - 64;
  for (;; p += 64) {
    if (p > last) p = last;
    const uint64_t bits = mx_two_bits(p) | mx_two_bits(p + 16) | mx_two_bits(p + 32) |
                          mx_two_bits(p + 48);
    if (mx_unlikely(bits != 0)) return false;
    if (p == last) return true;
  }
}

// Clears a block that nobody has any more; `is_larger`: than MX_CLEAR_PLAIN. What it is then.
mx_inline uint64_t mx_clear_freed(const mx_page_t* page, void* block, bool is_larger) {
  const mx_two_t zero = {0, 0};
  const size_t n = mx_clear_size(page->block_size);
  uint8_t* const p = (uint8_t*)block + sizeof(mx_block_t);
  mx_check(is_larger == (page->block_size > MX_CLEAR_PLAIN));
  if (is_larger) return mx_clear_larger(p, n) ? MX_PAD_FREE : MX_PAD_FRESH;
  if (page->block_size == MX_ALIGN) return MX_PAD_FREE;
  memcpy(p, &zero, MX_CLEAR_SHORT);
  return MX_PAD_FREE;
}

// Whether a free block's first `size` bytes are still clear, as far as they were; `is_larger` as
// above, or not known.
mx_inline bool mx_is_clear(const void* block, size_t size, bool is_larger) {
  const size_t behind = mx_align_down(size + MX_PAD - 1, MX_ALIGN);
  const bool is_long = (is_larger && behind > MX_CLEAR_PLAIN - MX_ALIGN);
  const size_t most = (is_long ? MX_CLEAR_MOST : MX_CLEAR_SHORT);
  const size_t n = mx_min(behind, most);
  const uint8_t* const p = (const uint8_t*)block + sizeof(mx_block_t);
  if (size <= MX_ALIGN - MX_PAD) return true;
  return is_long ? mx_is_clear_long(p, n) : mx_two_bits(p) == 0;
}

#endif
