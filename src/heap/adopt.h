// SPDX-License-Identifier: MIT
// The passing of pages between threads.
#ifndef MX_HEAP_ADOPT_H
#define MX_HEAP_ADOPT_H

#include "heap.h"

// Whether no block of a page serves again: its heap was deleted, which had addresses of its own.
mx_inline bool mx_page_is_closed(const mx_page_t* page) {
  return MX_ISOLATE && page->arena->plots != NULL && mx_heap_is_main(mx_page_heap(page));
}

MX_BEGIN_DECLS
// Makes a page for a heap; NULL when out of memory. The caller owns it.
mx_page_t* mx_page_fresh(mx_heap_t* heap, size_t bin);
// As mx_page_grow, for a page of the heap: what it gets is on the heap's node, too. True: it got
// some.
bool mx_heap_grow_page(mx_heap_t* heap, mx_page_t* page);
// Where slices are mapped in part and that failed: a last try; the page ends where it fails again.
bool mx_page_extend_scarce(mx_heap_t* heap, mx_page_t* page, bool* is_zero);
// Releases an owned page that holds no block.
void mx_page_release(mx_page_t* page);
// To be called by the thread that claimed an abandoned page: takes it off the list of such pages.
void mx_page_own_again(mx_page_t* page);
// Gives an owned page to nobody, to be found again by its free blocks, if it has any.
void mx_page_abandon(mx_page_t* page);
// The same for a page that a free claimed and that is still on the list: it stays there if it can.
void mx_page_abandon_again(mx_page_t* page);
// Gives up a page without a free block. False: it got one meanwhile, and stays the caller's.
bool mx_page_abandon_full(mx_page_t* page, uintptr_t tid);
// Finds an abandoned page of the heap with free blocks, and owns it; or NULL.
mx_page_t* mx_page_reclaim(mx_heap_t* heap, size_t bin);
// The same of a main heap for a moment: the page stays on the list, for mx_page_abandon_again.
mx_page_t* mx_page_reclaim_briefly(mx_heap_t* heap, size_t bin);
// Gives the slices of a page back that no list holds any more. Purges nothing.
void mx_page_drop(mx_arenas_t* arenas, mx_page_t* page);
// Keeps a page of a heap that is being destroyed, for the next one in its record; false when it
// must go.
bool mx_heap_cache_put(mx_heap_t* heap, mx_page_t* page);
// Enters a new page in its heap's list and counters, and removes it. A main heap has no list.
void mx_heap_link_page(mx_heap_t* heap, mx_page_t* page);
mx_subproc_t* mx_heap_unlink_page(mx_page_t* page);
MX_END_DECLS

#endif
