// SPDX-License-Identifier: MIT
// Frees into the block's own page.
#ifndef MX_ALLOC_FREE_INTO_H
#define MX_ALLOC_FREE_INTO_H

#include "../heap/heap.h"

MX_BEGIN_DECLS
// Of a page of this thread, which may rest, be full, or have blocks into which pointers were given.
void mx_free_local(mx_page_t* page, void* p);
// Of a page that nobody had when it was looked at.
void mx_free_unowned(mx_page_t* page, mx_block_t* block);
// Of either, in builds that check nothing.
void mx_free_into(mx_page_t* page, mx_block_t* block);
MX_END_DECLS

#endif
