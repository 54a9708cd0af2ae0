// SPDX-License-Identifier: MIT
// Frees into the block's own page, which is this thread's or nobody's.
#include "../heap/claim.h"
#include "../heap/theap.h"
#include "../page/remote.h"
#include "free_into.h"
#include "harden.h"

// Nobody has a pointer into a page without live blocks any more: its frees are fast again.
static void end_shift(mx_page_t* page) {
  mx_check(mx_page_is_mine(page) && !mx_page_is_huge(page));
  const bool is_current = (mx_page_theap(page)->bins.current[page->bin] == page);
  if (page->used > (is_current ? 1u : 0u)) return;
  mx_store_relaxed(&page->shifted, (uint8_t)0);
  mx_store_relaxed(&page->owner, mx_load_relaxed(&page->owner) & ~MX_OWNER_SHIFTED);
}

void mx_free_local(mx_page_t* page, void* p) {
  mx_check(mx_page_is_mine(page) && !mx_page_is_huge(page) && mx_page_could_be_block(page, p));
  mx_call_enter();
  mx_theap_t* const theap = mx_page_theap(page);
  mx_check(theap->tid == (mx_load_relaxed(&page->owner) & ~MX_OWNER_TAGS));
  if ((mx_load_relaxed(&page->owner) & MX_OWNER_FULL) != 0) mx_theap_page_unfull(theap, page);
  const bool emptied =
      (MX_HARDEN ? mx_harden_free(page, p) : mx_page_push(page, (mx_block_t*)p));
  if (mx_load_relaxed(&page->shifted) != 0) end_shift(page);
  if (emptied) mx_theap_page_emptied(theap, page);
  mx_call_leave();
}

// The page becomes this thread's in the very step that frees, so the call begins before it.
void mx_free_unowned(mx_page_t* page, mx_block_t* block) {
  mx_check(!mx_page_is_huge(page) && mx_page_could_be_block(page, block));
  mx_call_enter();
  if (mx_remote_push(page, block)) mx_page_claimed_by_free(page);
  mx_call_leave();
}

void mx_free_into(mx_page_t* page, mx_block_t* block) {
  if (mx_page_is_mine(page)) mx_free_local(page, block);
  else mx_free_unowned(page, block);
}
