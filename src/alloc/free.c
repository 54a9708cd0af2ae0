// SPDX-License-Identifier: MIT
// Owns the frees that are not the owner's simple case: blocks of other threads' pages, huge blocks,
// pages that became empty, and pointers that are no block at all.
#include "../base/hooks.h"
#include "../page/remote.h"
#include "alloc.h"
#include "fast.h"

#define EINVAL_ 22

// The page whose block p can be, or NULL.
static mx_page_t* page_of(const void* p) {
  mx_page_t* const page = mx_pagemap_get(p);
  if (mx_pagemap_is_none(page)) return NULL;
  // In a window of the page map an address from elsewhere may meet a record of ours.
  if ((size_t)((const uint8_t*)p - page->start) >= mx_page_size(page)) return NULL;
  return page;
}

static bool is_mine(const mx_page_t* page) {
  return (mx_load_relaxed(&page->owner) & ~MX_OWNER_TAGS) == mx_thread_id();
}

mx_noinline void mx_free_emptied(void* p) {
  mx_page_t* const page = mx_pagemap_get(p);
  mx_theap_page_emptied(page->theap, page);
}

static void free_local(mx_page_t* page, void* p) {
  if ((mx_load_relaxed(&page->owner) & MX_OWNER_FULL) != 0) mx_theap_page_unfull(page->theap, page);
  if (MX_HARDEN && !mx_harden_free(page, p)) return;
  if (mx_page_push(page, (mx_block_t*)p)) mx_theap_page_emptied(page->theap, page);
}

mx_noinline void mx_free_slow(void* p) {
  if (p == NULL) return;
  mx_page_t* const page = page_of(p);
  // Only constant fields of the page are read: it may be another thread's.
  if (mx_unlikely(page == NULL || !mx_page_could_be_block(page, p))) {
    mx_error(EINVAL_, (uintptr_t)p % sizeof(void*) != 0 ? "free: invalid (unaligned) pointer: %p\n"
                                                        : "free: invalid pointer: %p\n", p);
    return;
  }
  if (mx_page_is_huge(page)) {
    if (MX_HARDEN && !mx_harden_free_huge(page, p)) return;
    mx_huge_free(page);
    return;
  }
  if (mx_page_is_zeroblock(page)) {
    mx_zeroblock_free(page, p);
    return;
  }
  if (is_mine(page)) {
    free_local(page, p);
    return;
  }
  if (MX_HARDEN && !mx_harden_free_remote(page, p)) return;
  if (mx_remote_push(page, (mx_block_t*)p)) mx_page_claimed_by_free(page);
}

size_t mx_usable_size(const void* p) {
  if (p == NULL) return 0;
  const mx_page_t* const page = page_of(p);
  if (page == NULL || !mx_page_could_be_block(page, p)) return 0;
  return mx_page_is_zeroblock(page) ? 0 : mx_usable_of(page, p);
}
