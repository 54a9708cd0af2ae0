// SPDX-License-Identifier: MIT
// Owns the shelves: small blocks that a thread freed and keeps at hand for its next allocations.
//
// They serve front ends whose callers say how large a block is that they free (Zig): such a free
// need not find the block's page, and neither it nor the allocation that follows touches page or
// block. A block of another thread's page is used again just the same; what is too much goes back
// in groups, with one atomic operation for neighbours in the group that lie in one page.
//
// A shelf is changed by its thread alone. The front takes the last block from one that has any, and
// puts one behind the last while there are fewer than `most`. A thread without a theap looks at
// shelves of zeros: from these it gets nothing, and there it can put nothing. Blocks on a shelf
// count as used in their pages. So shelves are short, they are cleared when their thread ends or
// collects, and one that was not used for a round of housekeeping is cleared as well.
//
// A thread may die between any two instructions of the front. It enters a block before it counts
// it, so who clears the shelf later finds all but the block in the dead one's hands.
#include <string.h>

#include "../base/hooks.h"
#include "../mem/vmem.h"
#include "../os/thread.h"
#include "../page/remote.h"
#include "alloc.h"

mx_static_assert(!MX_SHELVES || (!MX_ENCODE_LINKS && !MX_PADDING && !MX_LIVE_BITS &&
                                 !MX_QUARANTINE && !MX_DEBUG_FILL && MX_TRACK == 0),
                 "blocks at hand are neither checked nor marked");

// What a shelf holds: so many bytes, and at least so many blocks.
#define SHELF_BYTES 2048
#define SHELF_LEAST 4

static uint16_t shelf_most(size_t bin) {
  const size_t count = SHELF_BYTES / mx_bin_size(bin);
  return (uint16_t)mx_min(mx_max(count, SHELF_LEAST), MX_SHELF_PLACES);
}

static void free_own(mx_page_t* page, mx_block_t* block) {
  mx_theap_t* const theap = page->theap;
  if ((mx_load_relaxed(&page->owner) & MX_OWNER_FULL) != 0) mx_theap_page_unfull(theap, page);
  if (mx_page_push(page, block)) mx_theap_page_emptied(theap, page);
}

// As the owner of the theap's pages, who may be another thread when the theap's one is gone.
static void free_shelved(const mx_theap_t* theap, mx_block_t* const* blocks, size_t count) {
  for (size_t i = 0; i < count;) {
    mx_block_t* const last = blocks[i];
    mx_page_t* const page = mx_pagemap_get(last);
    i++;
    if (mx_unlikely(mx_page_is_huge(page))) {  // guarded: sampling began after the shelf was made
      mx_free_slow(last);
      continue;
    }
    if (((mx_load_relaxed(&page->owner) ^ theap->tid) & ~MX_OWNER_TAGS) == 0) {
      free_own(page, last);
      continue;
    }
    mx_block_t* first = last;
    for (; i < count && mx_pagemap_get(blocks[i]) == page; i++) {
      mx_block_set_next(page, blocks[i], first);
      first = blocks[i];
    }
    if (mx_remote_push_list(page, first, last)) mx_page_claimed_by_free(page);
  }
}

// Frees the blocks that wait longest, all but the last `rest`. What frees a block may look at
// shelves (a collection, asked for by the program's handler of errors), so they leave first.
static void thin_out(const mx_theap_t* theap, mx_shelf_t* shelf, size_t rest) {
  mx_block_t* blocks[MX_SHELF_PLACES];
  const size_t count = shelf->count - rest;
  memcpy(blocks, shelf->blocks, count * sizeof(mx_block_t*));
  memmove(shelf->blocks, shelf->blocks + count, rest * sizeof(mx_block_t*));
  shelf->count = (uint32_t)rest;
  mx_call_enter();
  free_shelved(theap, blocks, count);
  mx_call_leave();
}

static void clear_shelves(void* of_theap, bool all) {
  const mx_theap_t* const theap = (const mx_theap_t*)of_theap;
  for (size_t bin = 1; bin < MX_SHELF_COUNT; bin++) {
    mx_shelf_t* const shelf = &theap->shelves[bin];
    if (shelf->count == 0) continue;
    if (all || shelf->count == shelf->seen) thin_out(theap, shelf, 0);
    shelf->seen = (uint16_t)shelf->count;
  }
}

bool mx_shelf_put(mx_theap_t* theap, size_t bin, mx_block_t* block) {
  if (theap->shelves == NULL) {
    mx_store_relaxed(&mx_hooks.clear_shelves, &clear_shelves);
    theap->shelves = (mx_shelf_t*)mx_meta_alloc(MX_SHELF_COUNT * sizeof(mx_shelf_t));
    if (theap->shelves == NULL) return false;
  }
  mx_tls_shelves = theap->shelves;
  mx_shelf_t* const shelf = &theap->shelves[bin];
  shelf->most = shelf_most(bin);
  if (shelf->count == shelf->most) thin_out(theap, shelf, shelf->most / 2);
  if (shelf->count == shelf->most) return false;  // what was freed brought others here
  shelf->blocks[shelf->count++] = block;
  return true;
}
