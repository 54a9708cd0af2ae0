// SPDX-License-Identifier: MIT
// The declarations of the transfer cache (see transfer.c).
#ifndef MX_HEAP_TRANSFER_H
#define MX_HEAP_TRANSFER_H

#include "heap.h"

// Builds that check, encode or keep track of each block have none.
#define MX_TRANSFERS \
  (MX_SECURE == 0 && MX_DEBUG == 0 && !MX_CHECKED_FREE && !MX_TRACK && !MX_PADDING)

// Whether there ever was a block: most programs never touch the caches' memory.
extern mx_hidden mx_atomic(bool) mx_has_transfers;
// So many bytes of a bin are kept at most; 0: none. Tests change it.
extern mx_hidden size_t mx_transfer_most;

MX_BEGIN_DECLS
// Keeps a block of another thread's page, which the theap's frees, for any that needs such a one.
// False: it is to go to its page.
bool mx_transfer_put(const mx_theap_t* theap, mx_page_t* page, mx_block_t* block);
// Whether lately more blocks of a bin were passed on than are kept.
mx_inline bool mx_transfer_overflows(const mx_subproc_t* subproc, size_t bin) {
  return MX_TRANSFERS && mx_load_relaxed(&subproc->passed_on[bin]) > 0;
}
// Whether there may be a block for a theap; which takes it, or NULL. Its page is another thread's.
bool mx_transfer_has(const mx_theap_t* theap, size_t bin);
mx_block_t* mx_transfer_take(const mx_theap_t* theap, size_t bin);
// How many blocks of a bin are kept, for tests.
size_t mx_transfer_count(size_t bin);
// Gives the blocks to their pages: in any case, or those that were not needed for a while.
void mx_transfer_flush(bool force);
// The main heap's memory is about to go: what is kept goes with it, and nothing is kept any more.
void mx_transfer_forget(void);
bool mx_transfer_visit_locks(mx_lock_visit_fn* visit);
// Takes the blocks of one slot of those that a thread keeps for itself (alloc/spare.h), and their
// number.
mx_block_t* mx_spare_cut(mx_theap_t* theap, mx_spare_slot_t* slot, uint32_t* count);
// Gives all of them to their pages, and those to nobody: the thread ends.
void mx_spare_give_up(mx_theap_t* theap);
MX_END_DECLS

#endif
