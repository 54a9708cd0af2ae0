// SPDX-License-Identifier: MIT
// The quarantine: freed blocks of a page that wait in a few places of its record.
//
// A freed block takes a place, and the block that was there becomes free: so no block comes back at
// the next malloc. In the full build the place is one of four, drawn at random: each further free
// of the page lets a block go with the chance 1/4, and when it comes back cannot be foretold. To
// choose costs more than all the rest of it. The secure build does without, and the block that was
// freed last waits for the next one. Of small blocks MX_WAIT_BYTES wait in a page at most, of large
// ones one: what a free touches was touched a few frees before, and is in the processor's cache.
//
// Waiting blocks are not used ones, and on no list; their link is that of the end of a list. What
// was written over it meanwhile makes one that leads astray, which shows when the block is used, or
// at once if it is large.
#ifndef MX_PAGE_DELAY_H
#define MX_PAGE_DELAY_H

#include "freelist.h"

#define MX_WAIT_BYTES 512

mx_static_assert((MX_WAIT_PLACES & (MX_WAIT_PLACES - 1)) == 0, "some bits choose one");
mx_inline mx_block_t** mx_page_wait_place(const mx_page_t* page, size_t i) {
  mx_check(i < MX_WAIT_PLACES);
  if (MX_WAIT_PLACES == 1) return (mx_block_t**)(uintptr_t)&page->wait;
  return &mx_page_extra(page)->wait[i];
}

// How many places the page has, less one: large blocks have one.
mx_inline uint32_t mx_page_wait_mask(const mx_page_t* page) {
  return MX_WAIT_PLACES == 1 ? 0 : mx_page_extra(page)->mask;
}

// Draws the place of the next freed block: upper bits of a congruential generator, whose start only
// the page's key tells.
mx_inline mx_block_t** mx_page_delay_place(mx_page_t* page) {
  if (MX_WAIT_PLACES == 1) return mx_page_wait_place(page, 0);
  mx_page_extra_t* const extra = mx_page_extra(page);
  const uint32_t random = extra->random;
  extra->random = random * 0x915F77F5u + 0x6B43A9B5u;
  return &extra->wait[(random >> 26) & extra->mask];
}

// Puts a block that has waited in front of those that are free; `is_small`: known to be. Owner
// only.
mx_inline void mx_page_end_wait(mx_page_t* page, mx_block_t* block, bool is_small) {
  // Large blocks are few, so the one that shows it might be long in coming.
  const bool is_large = (!is_small && page->block_size > MX_SMALL_MAX);
  const bool is_checked = (!MX_ENCODE_LINKS || MX_DEBUG > 0 || is_large);
  if (is_checked) {
    mx_block_check_last(page, block);
    mx_block_set_next(page, block, page->free);
  } else {
    block->next ^= (uintptr_t)page->free;
  }
  mx_fence_compiler();  // as in mx_page_push
  page->free = block;
}

// Lets a freed block wait, whose link is written, and one that has waited no longer. Owner only.
mx_inline void mx_page_wait(mx_page_t* page, mx_block_t* block, bool is_small) {
  mx_check(block != NULL && mx_page_wait_mask(page) < MX_WAIT_PLACES);
  mx_block_t** const place = mx_page_delay_place(page);
  mx_block_t* const old = *place;
  mx_check(old != block);
  *place = block;
  if (mx_likely(old != NULL)) mx_page_end_wait(page, old, is_small);
}

MX_BEGIN_DECLS
// Prepares a new page.
void mx_page_init_delay(mx_page_t* page);
// Makes all waiting blocks free; false when there are none. Owner only.
bool mx_page_end_delay(mx_page_t* page);
// As mx_freelist_mark, for the blocks that wait.
bool mx_page_mark_delayed(const mx_page_t* page, uint64_t* seen, size_t* count);
// Lets none wait, where all lists are made anew.
void mx_page_forget_delay(mx_page_t* page);
MX_END_DECLS

#endif
