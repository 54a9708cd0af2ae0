// SPDX-License-Identifier: MIT
// The magazines: small blocks that a thread freed and keeps at hand for its next allocations.
//
// They serve front ends whose callers say how large a block is that they free (Zig): such a free
// need not find the block's page, and neither it nor the allocation that follows touches page or
// block. A block of another thread's page is used again just the same; what is too much goes back
// in groups, with one atomic operation for neighbours in the group that lie in one page.
//
// A magazine is changed by its thread alone. The front takes the last block from one that has any,
// and puts one behind the last while there are fewer than `most`. A thread without a theap looks at
// magazines of zeros: from these it gets nothing, and there it can put nothing. Blocks in a
// magazine count as used in their pages. So magazines are short, they are cleared when their thread
// ends or collects, and one that was not used for a round of housekeeping is cleared as well.
//
// A thread may die between any two instructions of the front. It enters a block before it counts
// it, so a thread that clears the magazine later finds all but the block in the dead one's hands.
#include <string.h>

#include "../src/alloc/alloc.h"
#include "../src/base/hooks.h"
#include "../src/heap/claim.h"
#include "../src/heap/theap.h"
#include "../src/mem/vmem.h"
#include "../src/os/thread.h"
#include "../src/page/remote.h"
#include "magazine.h"

mx_static_assert(!MX_MAGAZINES || (!MX_ENCODE_LINKS && !MX_PADDING && !MX_LIVE_BITS &&
                                 !MX_QUARANTINE && !MX_DEBUG_FILL && MX_TRACK == 0),
                 "blocks at hand are neither checked nor marked");

// What a magazine holds: so many bytes, and at least so many blocks.
#define MAGAZINE_BYTES 2048
#define MAGAZINE_LEAST 4

static uint16_t magazine_most(size_t bin) {
  const size_t count = MAGAZINE_BYTES / mx_bin_size(bin);
  return (uint16_t)mx_min(mx_max(count, MAGAZINE_LEAST), MX_MAGAZINE_PLACES);
}

static void free_own(mx_page_t* page, mx_block_t* block) {
  mx_theap_t* const theap = mx_page_theap(page);
  if ((mx_load_relaxed(&page->owner) & MX_OWNER_FULL) != 0) mx_theap_page_unfull(theap, page);
  if (mx_page_push(page, block)) mx_theap_page_emptied(theap, page);
}

// As the owner of the theap's pages: another thread when the theap's own is gone.
static void free_blocks(const mx_theap_t* theap, mx_block_t* const* blocks, size_t count) {
  for (size_t i = 0; i < count;) {
    mx_block_t* const last = blocks[i];
    mx_page_t* const page = mx_pagemap_get(last);
    i++;
    if (mx_unlikely(mx_page_is_huge(page))) {  // guarded: sampling began later
      mx_free_slow(last);
      continue;
    }
    if (((mx_load_relaxed(&page->owner) ^ theap->tid) & ~MX_OWNER_TAGS) == 0) {
      free_own(page, last);
      continue;
    }
    mx_block_t* first = last;
    uint32_t run = 1;
    for (; i < count && mx_pagemap_get(blocks[i]) == page; i++, run++) {
      mx_block_set_next(page, blocks[i], first);
      first = blocks[i];
    }
    if (mx_remote_push_list(page, first, last, run)) mx_page_claimed_by_free(page);
  }
}

// Frees the blocks that wait longest, all but the last `rest`. What frees a block may look at
// magazines (a collection, asked for by the program's handler of errors), so they leave first.
static void thin_out(const mx_theap_t* theap, mx_magazine_t* magazine, size_t rest) {
  mx_block_t* blocks[MX_MAGAZINE_PLACES];
  const size_t count = magazine->count - rest;
  memcpy(blocks, magazine->blocks, count * sizeof(mx_block_t*));
  memmove(magazine->blocks, magazine->blocks + count, rest * sizeof(mx_block_t*));
  magazine->count = (uint32_t)rest;
  mx_call_enter();
  free_blocks(theap, blocks, count);
  mx_call_leave();
}

static void clear_magazines(void* of_theap, bool all) {
  const mx_theap_t* const theap = (const mx_theap_t*)of_theap;
  for (size_t bin = 1; bin < MX_MAGAZINE_COUNT; bin++) {
    mx_magazine_t* const magazine = &theap->magazines[bin];
    if (magazine->count == 0) continue;
    if (all || magazine->count == magazine->seen) thin_out(theap, magazine, 0);
    magazine->seen = (uint16_t)magazine->count;
  }
}

bool mx_magazine_put(mx_theap_t* theap, size_t bin, mx_block_t* block) {
  if (theap->magazines == NULL) {
    mx_store_relaxed(&mx_visits.clear_magazines, &clear_magazines);
    theap->magazines = (mx_magazine_t*)mx_meta_alloc(MX_MAGAZINE_COUNT * sizeof(mx_magazine_t));
    if (theap->magazines == NULL) return false;
  }
  mx_tls_magazines = theap->magazines;
  mx_magazine_t* const magazine = &theap->magazines[bin];
  magazine->most = magazine_most(bin);
  if (magazine->count == magazine->most) thin_out(theap, magazine, magazine->most / 2);
  if (magazine->count == magazine->most) return false;  // what was freed brought others here
  magazine->blocks[magazine->count++] = block;
  return true;
}
