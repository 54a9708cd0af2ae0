// SPDX-License-Identifier: MIT
// The quarantine: freed blocks of a page that wait in a few places of its record.
//
// A freed block takes the place that its key says, and the block that was there becomes free. So no
// block comes back at the next malloc, and when it will cannot be foretold without the page's key.
// Waiting blocks are not used ones, and on no list; their link must read as the end of a list when
// they leave. At most one block in 15 of a page waits (at least one).
#ifndef MX_PAGE_DELAY_H
#define MX_PAGE_DELAY_H

#include "freelist.h"

#define MX_WAIT_PLACES 4

typedef struct mx_page_extra_s {
  mx_block_t* wait[MX_WAIT_PLACES];
  uint32_t mask;  // which of them a page of few blocks uses: their number less one
} mx_page_extra_t;

mx_static_assert(MX_WAIT_PLACES == 4, "two bits choose one");
mx_static_assert(!MX_QUARANTINE || sizeof(mx_page_extra_t) <= MX_PAGE_EXTRA_SIZE,
                 "it fits its place");

mx_inline mx_page_extra_t* mx_page_extra(const mx_page_t* page) {
  return (mx_page_extra_t*)((uintptr_t)page + MX_PAGE_RECORD_SIZE);
}

// Which place a block's is. Of its offset, not its address: what follows from a seed follows in
// every run.
mx_inline size_t mx_page_delay_index(const mx_page_t* page, const mx_block_t* block) {
  const uint64_t offset = (uintptr_t)block - (uintptr_t)page->start;
  return (size_t)(((page->key ^ (offset << 24)) * 0x9E3779B97F4A7C15u) >> 62);
}

// Where a block waits.
mx_inline mx_block_t** mx_page_delay_place(mx_page_t* page, const mx_block_t* block) {
  mx_page_extra_t* const extra = mx_page_extra(page);
  return &extra->wait[mx_page_delay_index(page, block) & extra->mask];
}

// Lets a freed block wait; the block that has waited enough for that, or NULL. Owner only.
mx_inline mx_block_t* mx_page_delay(mx_page_t* page, mx_block_t* block) {
  mx_check(block != NULL && mx_page_extra(page)->mask < MX_WAIT_PLACES);
  mx_block_t** const place = mx_page_delay_place(page, block);
  mx_block_t* const old = *place;
  mx_check(old != block);
  *place = block;
  mx_block_set_next(page, block, NULL);
  if (mx_likely(old != NULL)) mx_block_check_last(page, old);
  return old;
}

MX_BEGIN_DECLS
// Makes all waiting blocks free; false when there are none. Owner only.
bool mx_page_end_delay(mx_page_t* page);
// Lets none wait, where all lists are made anew.
void mx_page_forget_delay(mx_page_t* page);
MX_END_DECLS

#endif
