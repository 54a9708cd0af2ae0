// SPDX-License-Identifier: MIT
// Looking into heaps: from any address to its page, and visits of all areas and live blocks.
//
// No lock is held while a visitor runs. By contract nobody else allocates from the heap or frees
// into it meanwhile; other heaps may be in full use.
#ifndef MX_SERVICE_WALK_H
#define MX_SERVICE_WALK_H

#include "../../include/mimalloc.h"
#include "../heap/heap.h"

typedef struct mx_visit_s {
  mi_block_visit_fun* visitor;
  void* arg;
  bool with_blocks;
  bool only_abandoned;
} mx_visit_t;

MX_BEGIN_DECLS
// The page that holds an address, or NULL.
mx_page_t* mx_walk_page_of(const void* p);
// How many blocks of a page are live.
size_t mx_walk_live_count(const mx_page_t* page);
// Visits a heap, a theap, all heaps of a sub-process (with a tag, or all when it is negative).
// False: the visitor stopped it.
bool mx_walk_heap(mx_heap_t* heap, const mx_visit_t* visit);
bool mx_walk_theap(const mx_theap_t* theap, const mx_visit_t* visit);
bool mx_walk_subproc(mx_subproc_t* subproc, int tag, const mx_visit_t* visit);
MX_END_DECLS

#endif
