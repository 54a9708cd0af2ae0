// SPDX-License-Identifier: MIT
// Owns malloc and free as the processor sees them. No lock, no atomic read-modify-write, no loop;
// malloc and free touch one cache line of the page's record, and the block.
#ifndef MX_ALLOC_FAST_H
#define MX_ALLOC_FAST_H

#include <string.h>

#include "../heap/heap.h"
#include "../os/thread.h"
#include "alloc.h"
#include "harden.h"

// Pops a block of the current page of the size's bin, or takes the slow path. A request of 0 bytes
// finds bin 0, which never has a page.
mx_inline void* mx_alloc_in(mx_theap_t* theap, size_t size) {
  if (mx_unlikely(size > MX_SMALL_MAX - MX_PAD)) return mx_alloc_medium(size, theap);
  mx_page_t* const page = theap->current[(size + MX_PAD + MX_ALIGN - 1) / MX_ALIGN];
  mx_block_t* const block = mx_page_pop(page);
  if (mx_unlikely(block == NULL)) return mx_alloc_slow(size, theap, false);
  if (MX_HARDEN) mx_harden_alloc(page, block, size, false);
  return block;
}

// Clears 16 to 64 bytes, a multiple of 16, with stores that may overlap.
mx_inline void mx_clear_small(void* p, size_t size) {
  typedef struct { uint64_t a, b; } pair_t;
  const pair_t zero = {0, 0};
  uint8_t* const first = (uint8_t*)p;
  uint8_t* const last = first + size - 16;
  memcpy(first, &zero, 16);
  memcpy(last, &zero, 16);
  if (size > 32) {
    memcpy(first + 16, &zero, 16);
    memcpy(last - 16, &zero, 16);
  }
}

// As mx_alloc_in, with the whole block cleared.
mx_inline void* mx_zalloc_in(mx_theap_t* theap, size_t size) {
  if (mx_unlikely(size > 64 - MX_PAD)) return mx_zalloc_other(size, theap);
  const size_t rounded = size + MX_PAD + MX_ALIGN - 1;
  mx_page_t* const page = theap->current[rounded / MX_ALIGN];
  mx_block_t* const block = mx_page_pop(page);
  if (mx_unlikely(block == NULL)) return mx_alloc_slow(size, theap, true);
  mx_clear_small(block, rounded & ~(MX_ALIGN - 1));
  if (MX_HARDEN) mx_harden_alloc(page, block, size, true);
  return block;
}

mx_inline void* mx_alloc(size_t size) { return mx_alloc_in(mx_tls_theap, size); }

// Pushes the block onto its page's list when the page is this thread's; else, or when p is no
// block at all (NULL has a record too), takes the slow path.
mx_inline void mx_free(void* p) {
  mx_page_t* const page = mx_pagemap_get(p);
  if (mx_unlikely(!mx_thread_is(mx_load_relaxed(&page->owner)))) {
    mx_free_slow(p);
    return;
  }
  if (MX_HARDEN && !mx_harden_free(page, p)) return;
  if (mx_unlikely(mx_page_push(page, (mx_block_t*)p))) mx_free_emptied(p);
}

#endif
