// SPDX-License-Identifier: MIT
// Owns the wait of freed small blocks: two lists of a page, beside `free`.
//
// A freed block goes to one of the two at random, and both become free blocks only when the page
// has no others (mx_page_collect). So a block is not used again before all blocks that were free
// before it, and in what order cannot be foretold. Delayed blocks count as used, as those do that
// other threads freed; their bits say that they are not live.
#ifndef MX_PAGE_DELAY_H
#define MX_PAGE_DELAY_H

#include "../mem/random.h"
#include "freelist.h"
#include "live.h"

// Pages carve new blocks rather than use delayed ones while these are fewer.
#define MX_DELAY_MIN 32

// Puts a freed block aside; true when no block of the page is in use any more. Owner only.
mx_inline bool mx_page_delay(mx_page_t* page, mx_block_t* block) {
  mx_page_extra_t* const extra = mx_page_extra(page);
  const size_t i = (size_t)(mx_random_step(&extra->random) >> 63);
  mx_block_t* const first = extra->delayed[i];
  if (first == NULL) extra->last[i] = block;
  mx_block_set_next(page, block, first);
  extra->delayed[i] = block;
  return ++extra->delayed_count == page->used;
}

mx_inline uint32_t mx_page_delayed(const mx_page_t* page) {
  return MX_QUARANTINE ? mx_page_extra(page)->delayed_count : 0;
}

// Makes all delayed blocks free; false when there are none. Owner only.
static inline bool mx_page_end_delay(mx_page_t* page) {
  mx_page_extra_t* const extra = mx_page_extra(page);
  if (extra->delayed_count == 0) return false;
  for (int i = 0; i < 2; i++) {
    if (extra->delayed[i] == NULL) continue;
    mx_block_check_last(page, extra->last[i]);
    mx_block_set_next(page, extra->last[i], page->free);
    page->free = extra->delayed[i];
    extra->delayed[i] = NULL;
  }
  page->used -= extra->delayed_count;
  extra->delayed_count = 0;
  return true;
}

#endif
