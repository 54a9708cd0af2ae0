// SPDX-License-Identifier: MIT
// Users' pointers that lie behind the start of their block, as an alignment at an offset gives, or
// one that a page's color does not have.
//
//      block                        p                        block + block_size
//        | skipped        | word      | what the user asked for ... |
//
// Their page is `shifted` (see page.h), so that each free asks here. Without more any address in a
// live block of such a page would do. Builds with canaries want the word in front of p, which is
// made as a canary of that place, with a state that no block has and that has the shift: only
// allocating writes it, and free takes it away.
#ifndef MX_PAGE_SHIFT_H
#define MX_PAGE_SHIFT_H

#include <string.h>

#include "padding.h"

// The word.
#define MX_SHIFT_LEAST ((size_t)8)

// How far behind a block of an alignment a pointer lies that is to lie `skip` bytes behind it, or
// whole alignments more: there is room for the word.
mx_inline size_t mx_shift_room(size_t skip, size_t align) {
  mx_check(skip > 0 && skip < align);
  if (!MX_PADDING || skip >= MX_SHIFT_LEAST) return skip;
  return skip + mx_align_up(MX_SHIFT_LEAST, align);
}

mx_inline uint64_t mx_shift_word(const mx_page_t* page, const void* block, const void* p) {
  const uintptr_t shift = (uintptr_t)p - (uintptr_t)block;
  return mx_pad_make(mx_place_key(page, p), MX_PAD_SIZE_END + shift);
}

mx_inline void mx_shift_unmark(void* p) {
  if (MX_PADDING) memset((uint8_t*)p - MX_SHIFT_LEAST, 0, MX_SHIFT_LEAST);
}

mx_inline bool mx_shift_is_marked(const mx_page_t* page, const void* block, const void* p) {
  if (!MX_PADDING) return true;
  if ((uintptr_t)p < (uintptr_t)block + MX_SHIFT_LEAST) return false;
  const uint8_t* const at = (const uint8_t*)p - MX_SHIFT_LEAST;
  uint64_t word;
  if (mx_has_tags()) word = mx_tag_load(at);
  else memcpy(&word, at, sizeof(word));
  return word == mx_shift_word(page, block, p);
}

// The start of the block in which an address of the page lies; NULL where none was ever carved: so
// it can be read.
mx_inline void* mx_shift_block(const mx_page_t* page, const void* p) {
  const size_t offset = mx_page_offset(page, p), size = page->block_size;
  // A guarded block is as long as was asked for, which may be nothing behind what was skipped.
  if (mx_page_is_guarded(page)) return offset <= size ? page->start : NULL;
  if (mx_page_is_huge(page)) return offset < size ? page->start : NULL;
  if (offset >= mx_page_carved(page)) return NULL;
  return page->start + (offset - (uint32_t)offset % (uint32_t)size);
}

// Of a pointer that is about to be given out.
mx_inline void mx_shift_mark(const mx_page_t* page, void* p) {
  if (!MX_PADDING) return;
  const void* const block = mx_shift_block(page, p);
  if (p == block) return;
  mx_check(block != NULL && (uintptr_t)p >= (uintptr_t)block + MX_SHIFT_LEAST);
  const uint64_t word = mx_shift_word(page, block, p);
  memcpy((uint8_t*)p - MX_SHIFT_LEAST, &word, sizeof(word));
}

// The start of the block that a user's pointer into this page stands for, judged by what does not
// change while it is live; NULL when it stands for none.
mx_inline void* mx_page_block_of(const mx_page_t* page, const void* p) {
  if (mx_likely(mx_page_could_be_block(page, p))) return (void*)(uintptr_t)p;
  if (mx_load_relaxed(&page->shifted) == 0) return NULL;
  void* const block = mx_shift_block(page, p);
  return block != NULL && mx_shift_is_marked(page, block, p) ? block : NULL;
}

#endif
