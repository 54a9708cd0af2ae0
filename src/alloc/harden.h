// SPDX-License-Identifier: MIT
// Owns the checks that hardened builds (debug, secure, padding, checked free) add to the paths of
// malloc and free. In a release build every function here is a constant, and costs nothing.
#ifndef MX_ALLOC_HARDEN_H
#define MX_ALLOC_HARDEN_H

#include "../heap/heap.h"
#include "../page/freelist.h"

#define MX_HARDEN (MX_CHECKED_FREE || MX_PADDING || MX_ENCODE_LINKS || MX_TRACK)

// Bytes behind each block's user part that the library keeps for itself.
#define MX_PAD ((size_t)(MX_PADDING ? 8 : 0))

MX_BEGIN_DECLS
// A block leaves the free lists for `size` bytes of user data.
void mx_harden_alloc(const mx_page_t* page, void* block, size_t size, bool zero);
// Whether a block may be freed; reports and answers false when it may not.
bool mx_harden_free(mx_page_t* page, void* block);
// The bytes that a user may write to a live block.
size_t mx_harden_usable(const mx_page_t* page, const void* block);
MX_END_DECLS

mx_inline size_t mx_usable_of(const mx_page_t* page, const void* block) {
  return MX_PADDING ? mx_harden_usable(page, block) : page->block_size;
}

#endif
