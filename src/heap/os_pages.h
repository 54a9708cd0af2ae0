// SPDX-License-Identifier: MIT
// Pages that hold one huge block.
#ifndef MX_HEAP_OS_PAGES_H
#define MX_HEAP_OS_PAGES_H

#include "heap.h"

MX_BEGIN_DECLS
// A page record with memory for a huge block; not initialised. NULL when out of memory. A block
// that is growing gets memory with room behind it, if there is.
mx_page_t* mx_huge_page_alloc(mx_heap_t* heap, size_t count, size_t align, bool is_growing,
                              mx_slices_t* out);
// One for a block of `room` bytes, a multiple of MX_ALIGN and above slices of them, that ends with
// its mapping and is aligned as asked: initialised.
// *used: so many first bytes of it may hold anything, none if it is to be fresh; the others are
// zero. NULL: it cannot be had there (any more).
mx_page_t* mx_huge_page_apart(mx_heap_t* heap, size_t room, size_t align, bool is_fresh,
                              size_t* used);
// Gives back what is kept of such blocks that were freed: all, or what waited longer than memory
// may.
void mx_huge_kept_flush(bool force);
// Enters an initialised one where it can be found; it belongs to its heap from then on.
bool mx_huge_page_enter(mx_page_t* page);
// Changes the block's size in the record and in the counters.
void mx_huge_page_resize(mx_page_t* page, size_t bytes);
// Takes more slices right behind one that has a mapping of its own; gives all but `keep` back.
bool mx_huge_page_extend(mx_page_t* page, size_t more);
void mx_huge_page_shorten(mx_page_t* page, size_t keep);
// Forgets a huge page that no heap's list holds any more, and whose first slices may be anybody's
// by now: none of its memory is used again.
void mx_huge_page_lose(mx_subproc_t* subproc, mx_page_t* page, size_t torn);
// Releases the memory of a huge page that no heap's list holds any more.
void mx_huge_page_drop(mx_subproc_t* subproc, mx_page_t* page);
// The partition that a page's addresses are of; 0: of none (see arena/partition.h).
uint64_t mx_page_partition(const mx_page_t* page);
bool mx_os_pages_visit_locks(mx_lock_visit_fn* visit);
MX_END_DECLS

#endif
