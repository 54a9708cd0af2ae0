// SPDX-License-Identifier: MIT
// Owns malloc and free as the processor sees them. No lock, no atomic read-modify-write, no loop;
// malloc touches the thread's head list and the block, free the page's record and the block.
#ifndef MX_ALLOC_FAST_H
#define MX_ALLOC_FAST_H

#include <string.h>

#include "../heap/heap.h"
#include "../os/thread.h"
#include "alloc.h"
#include "harden.h"

// Pops a block of the thread's hot list for the size, or takes the slow path.
mx_inline void* mx_alloc_in(mx_theap_t* theap, size_t size) {
  if (mx_unlikely(size > MX_SMALL_MAX - MX_PAD)) return mx_alloc_medium(size, theap);
  const size_t bin = (size + MX_PAD + MX_ALIGN - 1) / MX_ALIGN;
  mx_block_t* const block = theap->heads[bin];
  if (mx_unlikely(block == NULL)) return mx_alloc_slow(size, theap, false);
  theap->heads[bin] = mx_block_next(theap->current[bin], block);
  if (MX_HARDEN) mx_harden_alloc(theap->current[bin], block, size, false);
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
  const size_t bin = (size + MX_PAD + MX_ALIGN - 1) / MX_ALIGN;
  mx_block_t* const block = theap->heads[bin];
  if (mx_unlikely(block == NULL)) return mx_zalloc_other(size, theap);
  theap->heads[bin] = mx_block_next(theap->current[bin], block);
  mx_clear_small(block, bin * MX_ALIGN);
  if (MX_HARDEN) mx_harden_alloc(theap->current[bin], block, size, true);
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
  mx_block_t* const block = (mx_block_t*)p;
  mx_block_set_next(page, block, page->free);
  page->free = block;
  if (mx_unlikely(--page->used == 0)) mx_free_emptied(p);
}

#endif
