// SPDX-License-Identifier: MIT
// The bitmaps of live blocks that some checked builds keep, away from the blocks: for every
// place where a block can begin (each 16 bytes of a slice) whether a live block begins there, and
// whether another thread has freed it.
//
// The place in the bitmap follows from the address alone, so a test takes no division, and a
// pointer into the middle of a block finds a clear bit just as a freed block does. `live` belongs
// to the page's owner: it sets a bit when a block is handed out, and clears it when the block comes
// back to its lists. `gone` is set by atomic operations of other threads that free, and cleared by
// the owner when it collects those blocks. Of two frees of one block, from whatever threads, one
// therefore finds the bits wrong: at once, or (the owner and another thread in the same
// nanoseconds) when the owner collects. Bits of what is no page are clear.
//
// The bitmaps of a page's slices lie behind the records of these slices in the arena. A huge block
// needs none: the page map knows it, and a free of it claims its record.
#ifndef MX_PAGE_LIVE_H
#define MX_PAGE_LIVE_H

#include "page.h"

typedef struct mx_live_s {
  mx_atomic(uint64_t) live;
  mx_atomic(uint64_t) gone;
} mx_live_t;

// The pair of words that holds the bits of p, which lies in the page.
mx_inline mx_live_t* mx_live_words(const mx_page_t* page, const void* p) {
  mx_check(page->arena != NULL && page->bin != MX_BIN_HUGE);
  mx_check((uintptr_t)p >> MX_SLICE_SHIFT >= (uintptr_t)page->start >> MX_SLICE_SHIFT);
  const uintptr_t slice =
      ((uintptr_t)p >> MX_SLICE_SHIFT) - ((uintptr_t)page->start >> MX_SLICE_SHIFT);
  const uintptr_t words = (uintptr_t)page + MX_PAGE_RECORD_SIZE + MX_PAGE_EXTRA_SIZE +
                          slice * MX_PAGE_RECORD_STRIDE;
  return (mx_live_t*)words + ((uintptr_t)p % MX_SLICE_SIZE / (MX_ALIGN * 64));
}

mx_inline uint64_t mx_live_bit(const void* p) {
  return (uint64_t)1 << ((uintptr_t)p / MX_ALIGN % 64);
}

// Whether a live block begins at p. Exact for the page's owner; for others unless the block is
// being freed or allocated at this moment.
mx_inline bool mx_live_test(const mx_page_t* page, const void* p) {
  const mx_live_t* words = mx_live_words(page, p);
  return ((uintptr_t)p % MX_ALIGN) == 0 &&
         (mx_load_relaxed(&words->live) & ~mx_load_relaxed(&words->gone) & mx_live_bit(p)) != 0;
}

// Sets a block's bit; false when it was set. Owner only.
mx_inline bool mx_live_begin(mx_page_t* page, const void* block) {
  mx_live_t* const words = mx_live_words(page, block);
  const uint64_t live = mx_load_relaxed(&words->live), bit = mx_live_bit(block);
  mx_store_relaxed(&words->live, live | bit);
  return (live & bit) == 0;
}

// Clears a live block's bit. Owner only.
mx_inline void mx_live_end(mx_page_t* page, const void* block) {
  mx_check((mx_load_relaxed(&mx_live_words(page, block)->live) & mx_live_bit(block)) != 0);
  mx_live_t* const words = mx_live_words(page, block);
  mx_store_relaxed(&words->live, mx_load_relaxed(&words->live) & ~mx_live_bit(block));
}

MX_BEGIN_DECLS
// Clears all bits of a page: it goes with live blocks in it.
void mx_live_clear(mx_page_t* page);
MX_END_DECLS

#endif
