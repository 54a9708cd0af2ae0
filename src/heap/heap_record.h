// SPDX-License-Identifier: MIT
// The records of heaps: made and recycled, and the pages that they keep.
#ifndef MX_HEAP_HEAP_RECORD_H
#define MX_HEAP_HEAP_RECORD_H

#include "heap.h"

MX_BEGIN_DECLS
// A heap that takes its memory from `arena`, or any when NULL; NULL when out of memory.
mx_heap_t* mx_heap_create(mx_subproc_t* subproc, mx_arena_t* arena, int tag, bool allow_destroy);
void mx_heap_init_main(mx_subproc_t* subproc);
// Takes a heap off its sub-process' list, and its record back.
void mx_heap_recycle(mx_heap_t* heap);
// Gives back the pages that a heap's record keeps (adopt.c), and those of all free records.
void mx_heap_cache_drop(mx_heap_t* heap);
void mx_heap_release_cached(mx_subproc_t* subproc);
MX_END_DECLS

#endif
