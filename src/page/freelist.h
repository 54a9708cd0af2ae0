// SPDX-License-Identifier: MIT
// The links of the free lists: plain pointers, or (hardened builds) pointers encoded with the
// page's key and checked, when read, to lead into the same page.
#ifndef MX_PAGE_FREELIST_H
#define MX_PAGE_FREELIST_H

#include "../mem/random.h"
#include "../os/track.h"
#include "page.h"

MX_BEGIN_DECLS
// Reports a link that leads out of its page; answers the end of the list.
mx_block_t* mx_freelist_corrupted(const mx_page_t* page, const mx_block_t* block, uintptr_t link);
// Marks the blocks of a list by their numbers in `seen` and adds how many they are to *count. False
// where it is none of distinct blocks of the page: it stops there, and reports nothing.
bool mx_freelist_mark(const mx_page_t* page, const mx_block_t* list, uint64_t* seen, size_t* count);
MX_END_DECLS

// No page has more blocks: that of one slice with the smallest.
#define MX_PAGE_BLOCKS_MAX (MX_SLICE_SIZE / MX_ALIGN)

// What a block's link and canary are encoded with. The block's own address takes part, so that
// equal links look different in different places. The lowest byte is 0.
mx_inline uint64_t mx_place_key(const mx_page_t* page, const void* block) {
  return page->key ^ ((uint64_t)(uintptr_t)block << 24);
}

// Links lead to the same page, so never farther than this.
#define MX_LINK_SHIFT 22
mx_static_assert(MX_LARGE_PAGE_SLICES * MX_SLICE_SIZE == (size_t)1 << MX_LINK_SHIFT,
                 "no page is larger");

// Whether a link leads to a place in its page where a block could begin. Without the key a forged
// link decodes to any of 2^64 values; that the place is a free block's start is seen by the one
// that takes the block (its canary, or its bit among the live ones), so a look at the distance is
// enough.
mx_inline bool mx_link_leads_home(const mx_page_t* page, const mx_block_t* block, uintptr_t link) {
  if (MX_DEBUG == 0) {
    return (link + ((uintptr_t)1 << MX_LINK_SHIFT) - (uintptr_t)block) >> (MX_LINK_SHIFT + 1) == 0;
  }
  const uintptr_t offset = link - (uintptr_t)page->start;
  return offset < (uintptr_t)page->slice_count * MX_SLICE_SIZE && offset % MX_ALIGN == 0;
}

// The same for small blocks, whose pages have one slice.
mx_static_assert(MX_SMALL_MAX <= MX_SMALL_PAGE_MAX, "they do");
mx_inline bool mx_link_leads_near(const mx_block_t* block, uintptr_t link) {
  return (link ^ (uintptr_t)block) >> MX_SLICE_SHIFT == 0;
}

mx_inline void mx_block_set_next(const mx_page_t* page, mx_block_t* block, const mx_block_t* next) {
  uintptr_t link = (uintptr_t)next;
  if (MX_ENCODE_LINKS) link ^= (uintptr_t)mx_place_key(page, block);
  mx_track_pause();
  block->next = link;
  mx_track_resume();
}

mx_inline mx_block_t* mx_block_next(const mx_page_t* page, const mx_block_t* block) {
  mx_track_pause();
  uintptr_t link = block->next;
  mx_track_resume();
  if (MX_ENCODE_LINKS) {
    link ^= (uintptr_t)mx_place_key(page, block);
    if (mx_unlikely(!mx_link_leads_home(page, block, link))) {
      return link == 0 ? NULL : mx_freelist_corrupted(page, block, link);
    }
  }
  return (mx_block_t*)link;
}

// Whether a block's link says that nothing follows.
mx_inline bool mx_block_is_last(const mx_page_t* page, const mx_block_t* block) {
  if (!MX_ENCODE_LINKS) return true;
  mx_track_pause();
  const uintptr_t link = block->next;
  mx_track_resume();
  return link == (uintptr_t)mx_place_key(page, block);
}

// Verifies the link of a block that nothing follows, before it is written anew.
mx_inline void mx_block_check_last(const mx_page_t* page, const mx_block_t* block) {
  mx_check(block != NULL);
  if (mx_likely(mx_block_is_last(page, block))) return;
  mx_freelist_corrupted(page, block, block->next ^ (uintptr_t)mx_place_key(page, block));
}

// A number that cannot be told without the page's key, for `n`.
mx_inline uint32_t mx_page_random(const mx_page_t* page, uint64_t n) {
  return mx_random_of(page->key, n);
}

// Takes the first free block; NULL when there is none. Owner only.
mx_inline mx_block_t* mx_page_pop(mx_page_t* page) {
  mx_check(page != &mx_page_none || page->free == NULL);
  mx_block_t* block = page->free;
  mx_keep_in_result(block);
  if (mx_likely(block != NULL)) {
    page->free = mx_block_next(page, block);
    page->used++;
    mx_check(page->used <= page->capacity + 1);
  }
  return block;
}

// Puts a block back; true when the page has thereby become empty. Owner only. Somebody may be
// looking for holes (see holes.h), so the link is written before `free`, and that before `used`.
mx_inline bool mx_page_push(mx_page_t* page, mx_block_t* block) {
  mx_check(page->used > 0 && mx_page_is_block(page, block));
  mx_block_set_next(page, block, page->free);
  mx_fence_compiler();
  page->free = block;
  mx_fence_compiler();
  return --page->used == 0;
}

#endif
