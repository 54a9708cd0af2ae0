// SPDX-License-Identifier: MIT
// Blocks of a thread's own former pages that wait for its next request.
//
// Where as many blocks are freed as are made, at random, nearly each free is of a full page that
// was given up. To take that over, for one block, and make it full again takes several times as
// long as all else. So the block waits for the thread's next request, as few as serve: one of a
// size first, one more with each that did. To its page it is in use all the time. No other thread
// sees it; it goes to its page when more are freed than made, after some visits of the slow path,
// when the thread ends, and whenever it walks, counts or gives back memory. A thread that does
// nothing keeps what it has.
#include "../heap/adopt.h"
#include "../heap/transfer.h"
#include "../page/remote.h"
#include "free_into.h"
#include "spare.h"

#define REST 8  // where nothing of a slot was asked for

// Of a block that was freed twice there may be a ring, which the count ends.
static void flush_spares_of(mx_theap_t* theap, mx_spare_slot_t* slot) {
  if (slot->waiting == NULL) return;
  mx_call_enter();
  mx_check(slot->count > 0 && theap->spares.bytes >= slot->count * mx_bin_size(slot->bin));
  uint32_t count = 0;
  mx_block_t* block = mx_spare_cut(theap, slot, &count);
  for (mx_block_t* next; count > 0 && block != NULL; block = next, count--) {
    next = (mx_block_t*)block->next;
    mx_free_into(mx_pagemap_get(block), block);
  }
  mx_call_leave();
}

void mx_spare_flush(mx_theap_t* theap) {
  mx_theap_t* const first = theap->first;
  if (!MX_TRANSFERS || first == NULL || first->spares.bytes == 0) return;
  for (size_t i = 0; i < MX_SPARE_SLOTS; i++) flush_spares_of(first, &first->spares.slots[i]);
}

// Which theap had the page last is a hint: the record may be another thread's by now, and the page
// of another heap. A block of the main heap may go to whom it will.
mx_unsynchronised static bool is_of_main(const mx_theap_t* theap, const mx_page_t* page) {
  const mx_heap_t* const heap = &mx_subproc_main.main_heap;
  return theap->first == theap && mx_page_heap(page) == heap &&
         mx_load_relaxed(&theap->heap) == heap && !mx_page_is_closed(page);
}

// Two of a slice: a thread that frees page by page shall not keep pages from becoming empty. And
// one that frees more than it allocates has no use for what waits.
static bool has_enough(const mx_theap_t* theap, const mx_spare_slot_t* slot, const mx_page_t* page,
                       const mx_block_t* block) {
  return ((uintptr_t)slot->waiting ^ (uintptr_t)block) < MX_SLICE_SIZE ||
         slot->count > slot->most || slot->bin != page->bin ||
         theap->spares.bytes + page->block_size > MX_SPARE_BYTES;
}

bool mx_spare_put(mx_theap_t* theap, mx_page_t* page, mx_block_t* block) {
  if (theap->sampling.is_on || !is_of_main(theap, page)) return false;
  mx_spare_slot_t* const slot = &theap->spares.slots[page->bin % MX_SPARE_SLOTS];
  mx_check(theap == theap->first && theap->tid == mx_thread_id());
  mx_check(slot->waiting != NULL || slot->count == 0);
  if (mx_unlikely(slot->waiting == block)) {
    mx_remote_refuse(page, block);
    return true;
  }
  if (slot->rest > 0) {
    slot->rest--;
    return false;
  }
  if (slot->waiting == NULL) slot->bin = page->bin;
  if (mx_unlikely(has_enough(theap, slot, page, block))) {
    if (slot->most == 0) slot->rest = REST;
    flush_spares_of(theap, slot);
    mx_free_into(page, block);
    return true;
  }
  mx_check(slot->bin == page->bin && slot->count <= slot->most);
  block->next = (uintptr_t)slot->waiting;
  slot->waiting = block;
  slot->count++;
  theap->spares.bytes += (uint32_t)page->block_size;
  mx_check(theap->spares.bytes <= MX_SPARE_BYTES);
  return true;
}
