// SPDX-License-Identifier: MIT
// Owns what is said of a link that leads out of its page.
#include "freelist.h"

#include "../base/hooks.h"

mx_block_t* mx_freelist_corrupted(const mx_page_t* page, const mx_block_t* block, uintptr_t link) {
  mx_error(14 /* EFAULT */, "corrupted free list entry of size %zub at %p: value 0x%zx\n",
           page->block_size, (const void*)block, (size_t)link);
  return NULL;
}
