// SPDX-License-Identifier: MIT
// Owns the quarantine: freed blocks of a page that wait in a few random places of its record.
//
// A freed block takes a random place, and the block that was there becomes free. So no block comes
// back at the next malloc, and when it will cannot be foretold. Waiting blocks count as used, as
// those do that other threads freed; their bits say that they are not live, and their links must
// read as the end of a list when they leave. A page whose used blocks all wait is empty. At most
// one block in 16 of a page waits (at least one).
#ifndef MX_PAGE_DELAY_H
#define MX_PAGE_DELAY_H

#include "../mem/random.h"
#include "freelist.h"
#include "live.h"

mx_inline uint32_t mx_page_waiting(const mx_page_t* page) {
  return MX_QUARANTINE ? mx_page_extra(page)->waiting : 0;
}

// Lets a freed block wait; true when no block of the page is in use any more. Owner only.
mx_inline bool mx_page_delay(mx_page_t* page, mx_block_t* block) {
  mx_page_extra_t* const extra = mx_page_extra(page);
  mx_block_set_next(page, block, NULL);
  if (mx_unlikely(extra->waiting < extra->places)) {
    extra->wait[extra->waiting] = block;
    extra->waiting++;
  } else {
    const uint64_t random = mx_random_step(&extra->random) >> 32;
    const size_t i = (size_t)((random * extra->places) >> 32);
    mx_block_t* const old = extra->wait[i];
    extra->wait[i] = block;
    mx_block_check_last(page, old);
    mx_block_set_next(page, old, page->free);
    page->free = old;
    page->used--;
  }
  return page->used == extra->waiting;
}

MX_BEGIN_DECLS
// Makes all waiting blocks free; false when there are none. Owner only.
bool mx_page_end_delay(mx_page_t* page);
MX_END_DECLS

#endif
