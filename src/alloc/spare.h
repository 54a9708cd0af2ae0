// SPDX-License-Identifier: MIT
// Blocks that a thread keeps for its own next requests.
#ifndef MX_ALLOC_SPARE_H
#define MX_ALLOC_SPARE_H

#include "../heap/heap.h"

#define MX_SPARE_BYTES (64 * MX_KIB)  // of a thread
#define MX_SPARE_FROM 256             // of smaller blocks few pages become full

MX_BEGIN_DECLS
// Frees a block of a page that this thread gave up and nobody has, with blocks of so many bytes:
// keeps it for this thread's next request of the size, or not. False: nothing was done.
bool mx_spare_put(mx_theap_t* theap, mx_page_t* page, mx_block_t* block);
// Frees all that the thread of a theap keeps into their pages: before blocks are counted, walked or
// given back. Only that thread may.
void mx_spare_flush(mx_theap_t* theap);
MX_END_DECLS

#endif
