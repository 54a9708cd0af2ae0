// SPDX-License-Identifier: MIT
// Owns what is done with the bitmaps of live blocks for a whole list or page at a time.
#include "live.h"

#include <string.h>

#include "../base/hooks.h"
#include "delay.h"
#include "freelist.h"

#define EAGAIN_ 11

void mx_live_clear(mx_page_t* page) {
  if (!MX_LIVE_BITS || page->arena == NULL) return;
  for (uint32_t i = 0; i < page->slice_count; i++) {
    const uintptr_t record = (uintptr_t)page + i * MX_PAGE_RECORD_STRIDE + MX_PAGE_RECORD_SIZE;
    memset((void*)(record + MX_PAGE_EXTRA_SIZE), 0, MX_LIVE_SIZE - MX_PAGE_EXTRA_SIZE);
  }
}

bool mx_live_end(mx_page_t* page, const mx_block_t* block) {
  mx_live_t* const words = mx_live_words(page, block);
  const uint64_t bit = mx_live_bit(block);
  const uint64_t live = mx_load_relaxed(&words->live);
  mx_store_relaxed(&words->live, live & ~bit);
  mx_and_acq_rel(&words->gone, ~bit);
  return (live & bit) != 0;
}

mx_block_t* mx_live_accept(mx_page_t* page, mx_block_t* list) {
  mx_block_t* first = NULL;
  mx_block_t* last = NULL;
  uint32_t count = 0;
  for (mx_block_t* b = list; b != NULL && count < page->capacity; count++) {
    mx_block_t* const next = mx_block_next(page, b);
    if (!mx_live_end(page, b)) {
      mx_error(EAGAIN_, "free: double free detected of block %p with size %zu\n", (void*)b,
               page->block_size);
    } else {
      if (last == NULL) first = b;
      else mx_block_set_next(page, last, b);
      last = b;
    }
    b = next;
  }
  if (last != NULL) mx_block_set_next(page, last, NULL);
  return first;
}

bool mx_page_end_delay(mx_page_t* page) {
  mx_page_extra_t* const extra = mx_page_extra(page);
  if (extra->waiting == 0) return false;
  for (uint32_t i = 0; i < extra->waiting; i++) {
    mx_block_check_last(page, extra->wait[i]);
    mx_block_set_next(page, extra->wait[i], page->free);
    page->free = extra->wait[i];
  }
  page->used -= extra->waiting;
  extra->waiting = 0;
  return true;
}
