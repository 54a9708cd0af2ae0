// SPDX-License-Identifier: MIT
// Owns what happens when malloc's hot list does not serve: medium sizes, refilling, out of memory.
#include <string.h>

#include "../base/hooks.h"
#include "alloc.h"
#include "fast.h"

#define ENOMEM_ 12
#define EOVERFLOW_ 75

// Takes the first block of a page that is current and has one.
static mx_block_t* pop(mx_theap_t* theap, mx_page_t* page, size_t bin) {
  mx_block_t* const block = page->free;
  mx_block_t* const next = mx_block_next(page, block);
  if (bin <= MX_SMALL_BINS) {
    // The whole list becomes hot. Its blocks count as used until they are freed.
    page->used = page->capacity + 1;
    page->free = NULL;
    theap->heads[bin] = next;
  } else {
    page->used++;
    page->free = next;
  }
  return block;
}

static void* alloc_in_bin(mx_theap_t* theap, size_t size, size_t bin, bool zero) {
  bool is_zero;
  mx_page_t* const page = mx_theap_refill(theap, bin, &is_zero);
  if (page == NULL) return NULL;
  mx_block_t* const block = pop(theap, page, bin);
  if (zero) memset(block, 0, is_zero ? sizeof(mx_block_t) : page->block_size);
  if (MX_HARDEN) mx_harden_alloc(page, block, size, zero);
  return block;
}

static void* alloc_once(mx_theap_t* theap, size_t size, bool zero) {
  const size_t padded = (size == 0 ? 1 : size) + MX_PAD;
  if (padded > MX_BIN_MAX_SIZE) return mx_huge_alloc(theap->heap, size, 1, zero);
  return alloc_in_bin(theap, size, mx_bin_of(padded), zero);
}

static mx_noinline void* alloc_rare(size_t size, mx_theap_t* theap, bool zero) {
  if (mx_unlikely(theap->heap == NULL)) {
    theap = mx_thread_theap();
    if (theap == NULL) return NULL;
  }
  if (mx_unlikely(size > MX_MAX_ALLOC)) {
    mx_error(EOVERFLOW_, "allocation request is too large (%zu bytes)\n", size);
    mx_error(ENOMEM_, "unable to allocate memory (%zu bytes)\n", size);
    return NULL;
  }
  theap->visits++;
  mx_theap_housekeeping(theap);
  void* p = alloc_once(theap, size, zero);
  if (mx_unlikely(p == NULL)) {
    // What this thread keeps for later may be just what is missing.
    mx_theap_collect(theap, true);
    mx_arenas_purge(&theap->subproc->arenas, true);
    p = alloc_once(theap, size, zero);
    if (p == NULL) mx_error(ENOMEM_, "unable to allocate memory (%zu bytes)\n", size);
  }
  return p;
}

// The common refill: the current page's own list, freed into since the hot list was taken.
mx_noinline void* mx_alloc_slow(size_t size, mx_theap_t* theap, bool zero) {
  const size_t bin = (size + MX_PAD + MX_ALIGN - 1) / MX_ALIGN;
  if (mx_unlikely(size > MX_SMALL_MAX - MX_PAD || zero)) return alloc_rare(size, theap, zero);
  mx_page_t* const page = theap->current[bin];
  if (mx_unlikely(page->free == NULL)) return alloc_rare(size, theap, false);
  if (mx_unlikely(++theap->visits % MX_VISITS_PER_ROUND == 0)) mx_theap_housekeeping(theap);
  if (mx_unlikely(page->free == NULL)) return alloc_rare(size, theap, false);
  mx_block_t* const block = pop(theap, page, bin);
  if (MX_HARDEN) mx_harden_alloc(page, block, size, false);
  return block;
}

mx_noinline void* mx_alloc_medium(size_t size, mx_theap_t* theap) {
  if (mx_likely(size <= MX_BIN_TABLE_MAX - MX_PAD)) {
    mx_page_t* const page = theap->current[mx_bin_of_medium(size + MX_PAD)];
    mx_block_t* const block = page->free;
    if (mx_likely(block != NULL)) {
      page->free = mx_block_next(page, block);
      page->used++;
      if (MX_HARDEN) mx_harden_alloc(page, block, size, false);
      return block;
    }
  } else if (size <= MX_BIN_MAX_SIZE - MX_PAD) {
    mx_page_t* const page = theap->current[mx_bin_of(size + MX_PAD)];
    mx_block_t* const block = page->free;
    if (mx_likely(block != NULL)) {
      page->free = mx_block_next(page, block);
      page->used++;
      if (MX_HARDEN) mx_harden_alloc(page, block, size, false);
      return block;
    }
  }
  return alloc_rare(size, theap, false);
}

mx_noinline void* mx_zalloc_other(size_t size, mx_theap_t* theap) {
  if (size > MX_BIN_MAX_SIZE - MX_PAD) return alloc_rare(size, theap, true);
  const size_t bin = mx_bin_of((size == 0 ? 1 : size) + MX_PAD);
  mx_page_t* const page = theap->current[bin];
  mx_block_t* block;
  if (bin <= MX_SMALL_BINS && theap->heads[bin] != NULL) {
    block = theap->heads[bin];
    theap->heads[bin] = mx_block_next(page, block);
  } else {
    block = page->free;
    if (block == NULL || bin <= MX_SMALL_BINS) return alloc_rare(size, theap, true);
    page->free = mx_block_next(page, block);
    page->used++;
  }
  memset(block, 0, page->block_size);
  if (MX_HARDEN) mx_harden_alloc(page, block, size, true);
  return block;
}
