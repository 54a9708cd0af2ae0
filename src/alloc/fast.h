// SPDX-License-Identifier: MIT
// Malloc and free as the processor sees them. No lock, no atomic read-modify-write, no loop;
// malloc touches one cache line of the page's record, which no other thread's free reads, and the
// block; free one more, which is seldom written.
#ifndef MX_ALLOC_FAST_H
#define MX_ALLOC_FAST_H

#include <string.h>

#include "../heap/heap.h"
#include "../os/thread.h"
#include "alloc.h"
#include "harden.h"
#include "tags.h"

// Takes a block of the current page of the size's bin, or takes the slow path. A request of 0 bytes
// finds bin 0, which never has a page.
mx_inline void* mx_alloc_in(mx_theap_t* theap, size_t size) {
  if (mx_unlikely(size - MX_SIZE_MIN > MX_SMALL_MAX - MX_PAD - MX_SIZE_MIN)) {
    return mx_alloc_medium(size, theap);
  }
  mx_page_t* const page = theap->bins.front[(size + MX_PAD + MX_ALIGN - 1) / MX_ALIGN];
  mx_block_t* const block = mx_take(page, size, true);
  if (mx_unlikely(block == NULL)) return mx_alloc_small_slow(size, theap);
  return block;
}

// Zeroed memory for count * size bytes, or NULL when the product overflows.
mx_inline void* mx_calloc_in(mx_theap_t* theap, size_t count, size_t size) {
  size_t total;
  if (mx_unlikely(mx_mul_overflow(count, size, &total))) return mx_calloc_slow(count, size, theap);
  if (mx_unlikely(total - MX_SIZE_MIN > 64 - MX_PAD - MX_SIZE_MIN)) {
    return MX_HARDEN_SLOWLY ? mx_calloc_slow(count, size, theap) : mx_calloc_medium(total, theap);
  }
  const size_t rounded = total + MX_PAD + MX_ALIGN - 1;
  mx_page_t* const page = theap->bins.front[rounded / MX_ALIGN];
  mx_block_t* const block = mx_take(page, total, true);
  if (mx_unlikely(block == NULL)) return mx_calloc_slow(count, size, theap);
  if (MX_HARDEN_SLOWLY) memset(block, 0, total);
  else mx_clear_small((uint8_t*)block, rounded & ~(size_t)(MX_ALIGN - 1));
  return block;
}

// Whether p is the start of a block that shares its page, and which; false says nothing yet.
mx_inline bool mx_is_plain_block(const void* p, mx_page_t** page) {
  if (!MX_KNOWS_BLOCKS || mx_unlikely(!mx_pagemap_is_near(p))) return false;
  *page = mx_pagemap_get_near(p);
  return mx_page_begins_block(*page, p);
}

// The usable bytes of a block, 0 when p is none of ours.
mx_inline size_t mx_usable(const void* p) {
  mx_page_t* page;
  return mx_likely(mx_is_plain_block(p, &page)) ? page->block_size : mx_usable_size(p);
}

// Grows or shrinks a block in the common cases: it stays what it is, or is copied. *p is the result
// then, NULL without memory; false says nothing yet.
mx_inline bool mx_realloc_plain(mx_theap_t* theap, void** p, size_t size) {
  mx_page_t* page;
  size_t usable, most;
  if (MX_HARDEN) {
    if (!mx_harden_knows(*p, &usable)) return false;
    page = mx_pagemap_get_near(*p);
    most = page->block_size - MX_PAD;
  } else {
    if (!mx_is_plain_block(*p, &page)) return false;
    usable = most = page->block_size;
  }
  mx_check(usable <= most && most < page->block_size + 1);
  if (mx_unlikely(most - size > most / 2)) {
    if (mx_unlikely(size - 1 >= MX_ROOM_MIN - 1)) return false;  // or is 0
    *p = mx_realloc_copied(theap, *p, usable, size);
    return true;
  }
  if (mx_load_relaxed(&theap->heap) != mx_page_heap(page)) return false;
  if (MX_HARDEN) mx_harden_set_size(page, *p, size);
  return true;
}

// For the program, as all that follows but where it is said.
mx_inline void* mx_alloc(size_t size) { return mx_given(mx_alloc_in(mx_tls_theap, size)); }

mx_inline void* mx_calloc(size_t count, size_t size) {
  return mx_given(mx_calloc_in(mx_tls_theap, count, size));
}

// Pushes the block onto its page's list when the page is this thread's; else, or when p is no block
// at all, takes one of the slow paths that the caller names: `other` where the page map's near part
// has a record, which NULL has not.
mx_inline void mx_free_or(void* p, void (*slow)(void*), void (*other)(void*, mx_page_t*)) {
  if (mx_unlikely(!mx_pagemap_is_near(p))) {
    slow(p);
    return;
  }
  mx_page_t* const page = mx_pagemap_get_near(p);
  if (mx_unlikely(!mx_thread_is(mx_load_relaxed(&page->owner)))) {
    other(p, page);
    return;
  }
  mx_check(mx_page_theap(page)->tid == mx_load_relaxed(&page->owner));
  if (MX_HARDEN) {
    if (mx_harden_takes_call(page)) {
      mx_free_larger(p, page);
      return;
    }
    const mx_put_t put = mx_harden_put(page, p, false, MX_SIZE_UNSAID);
    if (mx_unlikely(put == MX_PUT_LAST)) mx_free_emptied(p);
    else if (mx_unlikely(put == MX_PUT_REFUSED)) mx_free_with_care(p);
    return;
  }
  if (mx_unlikely(mx_page_push(page, (mx_block_t*)p))) mx_free_emptied(p);
}

// Frees a block by its plain address, which the program has no more.
mx_inline void mx_free_plain(void* p) { mx_free_or(p, mx_free_slow, mx_free_other); }

mx_inline void mx_free(void* p) {
  if (mx_has_tags()) mx_free_tagged(p);
  else mx_free_plain(p);
}

// Frees a block of which the program says how large and how aligned it is (SIZE_MAX, 0: it does
// not), in builds that compare that with the block: false when this is more than the simple case,
// or wrong. Nothing has happened then.
mx_inline bool mx_free_as(void* p, size_t size, size_t align) {
  if (!MX_CHECK_SIZED || MX_HARDEN_SLOWLY || !mx_pagemap_is_near(p)) return false;
  mx_page_t* const page = mx_pagemap_get_near(p);
  if (mx_unlikely(!mx_thread_is(mx_load_relaxed(&page->owner)))) return false;
  if (size == SIZE_MAX || mx_harden_takes_call(page)) return false;
  if (align > 0 && mx_unlikely(!mx_is_aligned(p, align))) return false;
  const mx_put_t put = mx_harden_put(page, p, false, size);
  mx_check(put == MX_PUT_REFUSED || (put == MX_PUT_LAST) == (page->used == 0));
  if (mx_unlikely(put == MX_PUT_LAST)) mx_free_emptied(p);
  return put != MX_PUT_REFUSED;
}

mx_inline void mx_free_checked(const char* function, void* p, size_t size, size_t align) {
  if (!MX_CHECK_SIZED) mx_free(p);
  else if (mx_has_tags()) mx_free_said_tagged(function, p, size, align);
  else if (mx_unlikely(!mx_free_as(p, size, align))) mx_free_said(function, p, size, align);
}

#endif
