// SPDX-License-Identifier: MIT
// The frees that are not the owner's simple case: blocks of other threads' pages, huge blocks,
// pages that became empty, and pointers that are no block at all.
#include "../base/hooks.h"
#include "../heap/theap.h"
#include "../heap/transfer.h"
#include "../os/track.h"
#include "../page/remote.h"
#include "../page/shift.h"
#include "alloc.h"
#include "fast.h"
#include "free_into.h"
#include "spare.h"

mx_noinline void mx_free_emptied(void* p) {
  mx_page_t* const page = mx_pagemap_get(p);
  mx_check(page->used == 0 && mx_page_is_mine(page));
  mx_call_enter();
  mx_theap_page_emptied(mx_page_theap(page), page);
  mx_call_leave();
}

mx_noinline void mx_free_larger(void* p, mx_page_t* page) {
  mx_check(mx_page_is_mine(page) && !mx_page_is_huge(page));
  const mx_put_t put = (mx_harden_is_larger(page) ? mx_harden_put(page, p, true, MX_SIZE_UNSAID)
                                                  : MX_PUT_REFUSED);
  if (mx_unlikely(put == MX_PUT_LAST)) mx_free_emptied(p);
  else if (mx_unlikely(put == MX_PUT_REFUSED)) mx_free_with_care(p);
}

mx_noinline void mx_free_with_care(void* p) {
  mx_page_t* const page = mx_pagemap_get(p);
  mx_check(mx_page_is_mine(page) && !mx_page_is_huge(page));
  mx_call_enter();
  if (mx_harden_free(page, p)) mx_theap_page_emptied(mx_page_theap(page), page);
  mx_call_leave();
}

// Of a size that is kept, in a page that this theap had last: a hint (see spare.c).
mx_unsynchronised static bool may_be_spare(const mx_theap_t* theap, const mx_page_t* page) {
  return page->block_size - MX_SPARE_FROM <= MX_SPARE_BYTES - MX_SPARE_FROM &&
         mx_peek_pointer(mx_theap_t, &page->theap) == theap;
}

// The page may become this thread's in the very step that frees.
mx_noinline static void free_unowned(mx_page_t* page, mx_block_t* block) {
  mx_check(!mx_page_is_huge(page) && !mx_page_is_zero_sized(page));
  mx_theap_t* const theap = mx_tls_theap;
  if (MX_TRANSFERS && may_be_spare(theap, page) && mx_spare_put(theap, page, block)) return;
  mx_free_unowned(page, block);
}

static void push_remote(mx_page_t* page, void* block) {
  mx_check(!mx_page_is_huge(page) && mx_page_could_be_block(page, block));
  if (!mx_remote_push_owned(page, (mx_block_t*)block)) free_unowned(page, (mx_block_t*)block);
}

// A block that others may need. A function of its own, so that small ones pass with nothing saved.
mx_noinline static void free_transferred(void* p, mx_page_t* page) {
  mx_check(page->bin > MX_SMALL_BINS && !mx_page_is_huge(page));
  mx_block_t* const block = (mx_block_t*)p;
  if (!mx_transfer_put(mx_tls_theap, page, block)) push_remote(page, block);
}

// What is neither NULL nor a block of another thread's page, or may not be.
mx_noinline void mx_free_slow(void* p) {
  if (p == NULL) return;
  mx_call_do_pending();  // whose the page is may not be known yet in the child of a fork
  mx_page_t* const page = mx_pagemap_find(p);
  // Only constant fields of the page are read: it may be another thread's.
  void* const block = (page == NULL ? NULL : mx_page_block_of(page, p));
  if (mx_unlikely(block == NULL)) {
    mx_error(EINVAL, (uintptr_t)p % sizeof(void*) != 0 ? "free: invalid (unaligned) pointer: %B\n"
                                                        : "free: invalid pointer: %B\n", p);
    if (page != NULL) mx_track_wrong(p);
    return;
  }
  mx_check(mx_page_offset(page, block) < mx_page_span(page) && (uintptr_t)block <= (uintptr_t)p);
  if (mx_unlikely(block != p)) mx_shift_unmark(p);
  if (mx_page_is_huge(page)) {
    if (MX_HARDEN) mx_harden_free_huge(page, block);
    mx_call_enter();
    mx_huge_free(page);
    mx_call_leave();
    return;
  }
  if (mx_page_is_zero_sized(page)) {
    mx_zero_sized_free(page, block);
    return;
  }
  if (mx_page_is_mine(page)) {
    mx_free_local(page, block);
    return;
  }
  const bool may =
      (!MX_HARDEN || mx_harden_put_remote(page, block) || mx_harden_free_remote(page, block));
  if (may) push_remote(page, block);
}

// What is noted of a vanished thread's block may not be right yet in the child of a fork.
mx_noinline void mx_free_other(void* p, mx_page_t* page) {
  if (MX_KNOWS_LIVE && mx_unlikely(mx_call_is_pending())) {
    mx_free_slow(p);
    return;
  }
  if (mx_harden_has_canaries(page) && !mx_page_is_mine(page) && mx_harden_put_remote(page, p)) {
    push_remote(page, p);
    return;
  }
  if (MX_KNOWS_BLOCKS && mx_likely(mx_page_begins_block(page, p) && !mx_page_is_mine(page))) {
    if (MX_TRANSFERS && mx_unlikely(page->bin > MX_SMALL_BINS)) {
      free_transferred(p, page);
      return;
    }
    if (mx_likely(mx_remote_push_once(page, (mx_block_t*)p))) return;
  }
  mx_free_slow(p);
}

mx_noinline void mx_free_said(const char* function, void* p, size_t size, size_t align) {
  if (!mx_harden_agrees(p, size, align) && !mx_harden_check_sized(function, p, size, align)) return;
  mx_free_plain(p);
}

void* mx_block_of(const void* p) {
  const mx_page_t* const page = mx_pagemap_find(p);
  if (p == NULL || page == NULL) return NULL;
  void* const block = mx_page_block_of(page, p);
  if (block == NULL) return NULL;
  mx_check((uintptr_t)block <= (uintptr_t)p && mx_pagemap_get(block) == page);
  // The page of a freed huge block may be kept.
  if (mx_page_is_huge(page)) return mx_load_relaxed(&page->owner) != 0 ? block : NULL;
  if (!MX_KNOWS_LIVE || mx_page_is_zero_sized(page)) return block;
  return mx_page_has_live(page, block) ? block : NULL;
}

size_t mx_usable_size(const void* p) {
  const void* const block = mx_block_of(p);
  const mx_page_t* const page = mx_pagemap_get(p);
  if (block == NULL || mx_page_is_zero_sized(page)) return 0;
  const size_t usable = mx_usable_of(page, block);
  const size_t shift = (size_t)((const uint8_t*)p - (const uint8_t*)block);
  mx_check(shift < mx_page_span(page));
  return usable > shift ? usable - shift : 0;
}
