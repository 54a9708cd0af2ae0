// SPDX-License-Identifier: MIT
// The ownership protocol: every step by which threads share a page without a lock.
//
// `page->remote` is one word: the list of blocks freed by other threads, and in its lowest bit
// whether the page is owned. Its transitions:
//
//   push       any thread that frees a block: list grows, owned bit set. Whoever finds the bit
//              clear has thereby become the owner.
//   try_claim  any thread that looks for a page: sets the bit if it was clear.
//   take       the owner: takes the whole list, keeps the bit.
//   disown     the owner: clears the bit, only if the list is empty.
//
// Push, claim and disown are read-modify-writes with acquire and release, so all that an owner did
// to the page is seen by the next one. `page->owner` is a relaxed hint for free(): a thread finds
// its own id there only if it wrote it itself and has not disowned the page since.
#ifndef MX_PAGE_REMOTE_H
#define MX_PAGE_REMOTE_H

#include "freelist.h"

#define MX_OWNED ((uintptr_t)1)

// Frees a list of blocks from outside, which ends in `last`. True: the caller now owns the page and
// must hand it on.
mx_inline bool mx_remote_push_list(mx_page_t* page, mx_block_t* first, mx_block_t* last) {
  mx_check(first != NULL && last != NULL && ((uintptr_t)first & MX_OWNED) == 0);
  uintptr_t old = mx_load_relaxed(&page->remote);
  do {
    mx_block_set_next(page, last, (mx_block_t*)(old & ~MX_OWNED));
  } while (!mx_cas_weak_acq_rel(&page->remote, &old, (uintptr_t)first | MX_OWNED));
  return (old & MX_OWNED) == 0;
}

// Frees a block from outside. False: the page had no owner, and nothing was done.
mx_inline bool mx_remote_push_owned(mx_page_t* page, mx_block_t* block) {
  mx_check(block != NULL && ((uintptr_t)block & MX_OWNED) == 0);
  uintptr_t old = mx_load_relaxed(&page->remote);
  do {
    if (mx_unlikely((old & MX_OWNED) == 0)) return false;
    mx_block_set_next(page, block, (mx_block_t*)(old & ~MX_OWNED));
  } while (!mx_cas_weak_acq_rel(&page->remote, &old, (uintptr_t)block | MX_OWNED));
  return true;
}

// As mx_remote_push_list for one block.
mx_inline bool mx_remote_push(mx_page_t* page, mx_block_t* block) {
  return mx_remote_push_list(page, block, block);
}

// Becomes the owner of an abandoned page; false when somebody else is.
mx_inline bool mx_remote_try_claim(mx_page_t* page) {
  mx_check(page != &mx_page_none);
  uintptr_t old = mx_load_relaxed(&page->remote);
  do {
    if ((old & MX_OWNED) != 0) return false;
  } while (!mx_cas_weak_acq_rel(&page->remote, &old, old | MX_OWNED));
  return true;
}

mx_inline bool mx_remote_is_empty(const mx_page_t* page) {
  return (mx_load_relaxed(&page->remote) & ~MX_OWNED) == 0;
}

// Takes all blocks that others freed. Owner only.
mx_inline mx_block_t* mx_remote_take(mx_page_t* page) {
  mx_check((mx_load_relaxed(&page->remote) & MX_OWNED) != 0);
  if (mx_remote_is_empty(page)) return NULL;
  return (mx_block_t*)(mx_exchange_acq_rel(&page->remote, MX_OWNED) & ~MX_OWNED);
}

// Gives the page up. False: blocks were freed meanwhile, and the caller still owns it.
mx_inline bool mx_remote_disown(mx_page_t* page) {
  mx_check((mx_load_relaxed(&page->remote) & MX_OWNED) != 0);
  mx_check((mx_load_relaxed(&page->owner) & ~MX_OWNER_TAGS) == 0);
  uintptr_t owned_and_empty = MX_OWNED;
  return mx_cas_strong_acq_rel(&page->remote, &owned_and_empty, (uintptr_t)0);
}

#endif
