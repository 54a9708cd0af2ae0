// SPDX-License-Identifier: MIT
// Deleting and destroying heaps.
#ifndef MX_HEAP_HEAP_END_H
#define MX_HEAP_HEAP_END_H

#include "heap.h"

MX_BEGIN_DECLS
// Gives a heap up; its blocks become the main heap's.
void mx_heap_delete(mx_heap_t* heap);
// Gives a heap up with all its blocks.
void mx_heap_destroy(mx_heap_t* heap);
// Unbinds all theaps of a heap, whichever thread's they are, and forgets their pages. Leaves its
// lock held.
void mx_heap_drop_theaps(mx_heap_t* heap);
MX_END_DECLS

#endif
