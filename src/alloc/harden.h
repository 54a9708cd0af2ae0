// SPDX-License-Identifier: MIT
// Owns the checks that hardened builds (debug, secure, padding, checked free) add to the paths of
// malloc and free. In a release build every condition here is a constant, and costs nothing.
//
// The verbs: `alloc` follows the taking of a block off its page's list, `free` comes before a block
// goes back to any list and answers whether it may. What they find wrong is reported with the
// function, the pointer and the size, and then ends the process or is ignored as the option
// abort_on_error says.
#ifndef MX_ALLOC_HARDEN_H
#define MX_ALLOC_HARDEN_H

#include "../heap/heap.h"
#include "../page/freelist.h"
#include "../page/padding.h"

#define MX_HARDEN (MX_LIVE_BITS || MX_PADDING || MX_QUARANTINE || MX_DEBUG_FILL || MX_TRACK)

// With zero blocks, requests of 0 bytes leave the fast path: sizes are compared less one.
#define MX_SIZE_MIN ((size_t)(MX_ZERO_BLOCKS ? 1 : 0))

MX_BEGIN_DECLS
// A block leaves the free lists for `size` bytes of user data; `zero`: all of them read as zero,
// which is so already but for a link when `is_zero`.
void mx_harden_alloc(mx_page_t* page, void* block, size_t size, bool zero, bool is_zero);
// As alloc, for the block of a huge page.
void mx_harden_alloc_huge(void* block, size_t size);
// Whether the page's owner may push a block: false when it may not, or (quarantine) was put where
// it waits.
bool mx_harden_free(mx_page_t* page, void* block);
// Whether another thread may push a block; from then on the bits say that it is freed.
bool mx_harden_free_remote(mx_page_t* page, void* block);
// Whether a huge block may be freed.
bool mx_harden_free_huge(mx_page_t* page, void* block);
// The bytes that a user may write to a live block.
size_t mx_harden_usable(const mx_page_t* page, const void* block);
// Sets the user's size of a live block, at most what it is: for blocks that alignment made larger.
void mx_harden_shrink(void* block, size_t size);
// Whether `block` was allocated with this size and alignment, as a sized or aligned free says
// (SIZE_MAX, 0: not said); reports when not. For the API's frees and deletes.
bool mx_harden_check_sized(const char* function, const void* block, size_t size, size_t align);

// ---- blocks of no bytes (zeroblock.c) ----------------------------------------------------------
void* mx_zeroblock_alloc(size_t align);
void mx_zeroblock_free(mx_page_t* page, void* p);
void mx_zeroblock_before_fork(void);
void mx_zeroblock_after_fork(void);  // on both sides
MX_END_DECLS

mx_inline bool mx_page_is_zeroblock(const mx_page_t* page) {
  return MX_ZERO_BLOCKS && page->bin == 0;
}

mx_inline size_t mx_usable_of(const mx_page_t* page, const void* block) {
  return MX_PADDING ? mx_harden_usable(page, block) : page->block_size;
}

#endif
