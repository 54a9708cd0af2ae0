// SPDX-License-Identifier: MIT
// Following the links of a free list, and what is said of one that leads out of its page.
#include "freelist.h"

#include "../base/hooks.h"

mx_block_t* mx_freelist_corrupted(const mx_page_t* page, const mx_block_t* block, uintptr_t link) {
  mx_error(14 /* EFAULT */, "corrupted free list entry of size %zub at %p: value 0x%zx\n",
           page->block_size, (const void*)block, (size_t)link);
  return NULL;
}

// The list may be another thread's, that writes it.
mx_unsynchronised bool mx_freelist_mark(const mx_page_t* page, const mx_block_t* list,
                                        uint64_t* seen, size_t* count) {
  for (const mx_block_t* block = list; block != NULL;) {
    if (!mx_page_is_block(page, block)) return false;
    const size_t i = (size_t)((const uint8_t*)block - page->start) / page->block_size;
    if (mx_has_bit(seen, i)) return false;
    mx_set_bit(seen, i);
    ++*count;
    mx_track_pause();
    uintptr_t link = block->next;
    mx_track_resume();
    if (MX_ENCODE_LINKS) link ^= (uintptr_t)mx_place_key(page, block);
    block = (const mx_block_t*)link;
  }
  return true;
}
