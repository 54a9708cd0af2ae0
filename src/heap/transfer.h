// SPDX-License-Identifier: MIT
// The declarations of the transfer cache (see transfer.c).
#ifndef MX_HEAP_TRANSFER_H
#define MX_HEAP_TRANSFER_H

#include "heap.h"

// Builds that check, encode or keep track of each block have none.
#define MX_TRANSFERS (MX_SECURE == 0 && MX_DEBUG == 0 && !MX_CHECKED_FREE && !MX_TRACK)

extern mx_hidden mx_atomic(uint32_t) mx_transfer_counts[MX_BIN_COUNT];
// So many bytes of a bin are kept at most; 0: none. Tests change it.
extern mx_hidden size_t mx_transfer_most;

// Whether there may be blocks of the bin.
mx_inline bool mx_transfer_has(size_t bin) {
  return MX_TRANSFERS && mx_load_relaxed(&mx_transfer_counts[bin]) > 0;
}

MX_BEGIN_DECLS
// Keeps a block of another thread's page, which this one frees, for whoever needs one of its bin.
// False: it is to go to its page.
bool mx_transfer_put(mx_page_t* page, mx_block_t* block);
// A block of the bin for a thread that allocates from `heap`; or NULL. Its page is another's.
mx_block_t* mx_transfer_take(const mx_heap_t* heap, size_t bin);
// Gives the blocks to their pages: in any case, or those of sizes that were not used for a while.
void mx_transfer_flush(bool force);
bool mx_transfer_visit_locks(mx_lock_visit_fn* visit);
MX_END_DECLS

#endif
