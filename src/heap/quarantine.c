// SPDX-License-Identifier: MIT
// Owns the wait of freed medium blocks: a few random places of each theap.
//
// A freed block takes a random place, and the block that was there goes back to its page. Few and
// large blocks have places of their own, so that what waits is bounded: 12 of at most 32 KiB and 4
// larger ones. A waiting block counts as used in its page; its bits say that it is freed by
// somebody, so that whoever frees it once more is found out, from any thread. By the time it goes
// back its page may be anybody's, or the theap bound to another heap.
#include "../mem/random.h"
#include "../page/delay.h"
#include "../page/remote.h"
#include "heap.h"

#define LARGE_MIN ((size_t)32 * 1024)
#define LARGE_SLOTS 4

static bool is_of(const mx_theap_t* theap, const mx_page_t* page) {
  const uintptr_t tags = MX_OWNER_TAGS;
  return ((mx_load_relaxed(&page->owner) ^ theap->tid) & ~tags) == 0;
}

// True when the page of the theap became empty by it.
static bool put_back_own(mx_theap_t* theap, mx_page_t* page, mx_block_t* block) {
  if ((mx_load_relaxed(&page->owner) & MX_OWNER_FULL) != 0) mx_theap_page_unfull(theap, page);
  mx_block_check_last(page, block);
  mx_live_end(page, block);
  return mx_page_push(page, block);
}

void mx_quarantine_add(mx_theap_t* theap, mx_page_t* page, mx_block_t* block) {
  mx_block_set_next(page, block, NULL);
  mx_or_acq_rel(&mx_live_words(page, block)->gone, mx_live_bit(block));
  const bool large = (page->block_size > LARGE_MIN);
  const size_t first = (large ? MX_QUARANTINE_SLOTS - LARGE_SLOTS : 0);
  const size_t count = (large ? LARGE_SLOTS : MX_QUARANTINE_SLOTS - LARGE_SLOTS);
  if (theap->random == 0) theap->random = mx_random64();
  const size_t i = first + (size_t)(((mx_random_step(&theap->random) >> 32) * count) >> 32);
  mx_block_t* const old = theap->quarantine[i];
  theap->quarantine[i] = block;
  if (old == NULL) return;
  mx_page_t* const from = mx_pagemap_get(old);
  if (is_of(theap, from)) {
    if (put_back_own(from->theap, from, old)) mx_theap_page_emptied(from->theap, from);
    return;
  }
  mx_block_check_last(from, old);
  if (mx_remote_push(from, old)) {
    mx_page_claimed_by_free(from);
  }
}

void mx_quarantine_flush(mx_theap_t* theap) {
  for (size_t i = 0; i < MX_QUARANTINE_SLOTS; i++) {
    mx_block_t* const block = theap->quarantine[i];
    if (block == NULL) continue;
    theap->quarantine[i] = NULL;
    mx_page_t* const page = mx_pagemap_get(block);
    if (is_of(theap, page)) {
      put_back_own(page->theap, page, block);
      continue;
    }
    mx_block_check_last(page, block);
    if (mx_remote_push(page, block)) {
      mx_page_own_again(page);
      mx_page_collect(page);
      mx_page_abandon(page);
    }
  }
}
