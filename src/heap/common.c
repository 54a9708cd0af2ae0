// SPDX-License-Identifier: MIT
// Common pages: the first few blocks of each bin that a thread asks for, where threads are many,
// and large blocks that are passed on.
//
// A page for each size that a thread uses is an OS page for each, at least. Where hundreds of
// threads wait for work and have some dozens of blocks, that is most of their memory, and most of
// the time that they take to begin. So the first blocks of a bin come from common pages: these are
// abandoned pages, as others are, of which a thread claims one, takes a block, and abandons it
// again. That takes longer than with a page of its own, but not as long as a page fault. A thread
// that goes on to ask for blocks of the bin gets a page; it may be the common one. One that does so
// in several bins does not wait for work, and gets pages from then on. Nor does a thread take a
// block where an ended thread left a page of the bin: that one is there already.
//
// Threads that come and go leave their pages to each other, which is quicker still: one that begins
// with the record of one that ended soon is taken for one of those.
//
// Blocks of a common page are whole lines of the processor's caches, as they are different
// threads': writing to one does not slow down a thread that writes to the next.
//
// Threads that pass large blocks to others have a page for each size, full of blocks that come back
// late or while the thread sleeps: some 512 KiB for each thread and size. What is passed on lies in
// the transfer caches first. Of a bin for which these are too small, threads take blocks from
// common pages, where they are many; what an ended thread left serves as well. A block that is
// freed there is the next one's that asks, and an empty page goes at once. That takes some 0.3 us
// longer than with a page of its own, so a thread that frees what it takes gets those. When the
// caches were large enough for a while, all have pages of the bin again.
//
// What tells a common page from others that are abandoned is that it was no theap's before. A
// thread that frees into it leaves it there, unless it allocates from its bin (see claim.c).
#include <string.h>

#include "../os/os.h"
#include "../page/holes.h"
#include "../page/remote.h"
#include "adopt.h"
#include "common.h"
#include "theap.h"
#include "trim.h"

#define MANY_THREADS 16
#define COMMON_MOST 8              // blocks of a bin that a thread has in this way,
#define COMMON_BYTES (4 * MX_KIB)  // and bytes, before the last one
#define OUTGROWN_MOST 8            // bins of which a thread may have asked for more
#define BRIEF_MSECS 100            // that a thread lived
#define PASSED_TRIES 4             // listed pages that are looked at for a block
#define PASSED_LEAST 64            // larger blocks of which a thread that passes them on frees
#define PASSED_SHARE 4             // less than all but this part

bool mx_common_is_due(const mx_heap_t* heap) {
  const mx_counters_t* const counters = &heap->subproc->main_heap.counters;
  return MX_COMMON_PAGES && mx_load_relaxed(&counters->threads.current) >= MANY_THREADS;
}

// While threads are few nobody looks at the clock.
void mx_common_begin(mx_theap_t* first) {
  mx_check(first == first->first && first->subproc != NULL);
  memset(first->common.of, 0, sizeof(first->common.of));
  first->common.taken = first->common.freed = 0;
  first->common.outgrown = (first->thread.was_brief ? UINT8_MAX : 0);
  first->thread.begun = 0;
  if (mx_common_is_due(&first->subproc->main_heap)) first->thread.begun = mx_os_clock_msecs();
}

void mx_common_end(mx_theap_t* first) {
  mx_check(first == first->first);
  const uint64_t begun = first->thread.begun;
  first->thread.was_brief = (begun != 0 && mx_os_clock_msecs() - begun < BRIEF_MSECS);
}

bool mx_common_forgo(mx_theap_t* theap, size_t bin) {
  if (theap->heap == NULL || bin >= MX_LARGER_BIN || !mx_common_is_due(theap->heap)) return false;
  const bool might = (theap->common.of[bin] < COMMON_MOST);
  theap->common.of[bin] = COMMON_MOST;
  return might;
}

// Counts the request, if it is one.
static bool is_among_first(mx_theap_t* theap, size_t bin) {
  if (bin >= MX_LARGER_BIN || theap->common.outgrown > OUTGROWN_MOST) return false;
  if (!mx_heap_is_main(theap->heap) || !mx_common_is_due(theap->heap)) return false;
  const size_t count = theap->common.of[bin];
  mx_check(count <= COMMON_MOST);
  if (count < COMMON_MOST && count * mx_bin_size(bin) < COMMON_BYTES) {
    theap->common.of[bin]++;
    return true;
  }
  theap->common.outgrown++;
  return false;
}

static void return_common(mx_page_t* page) {
  mx_check((mx_load_relaxed(&page->remote) & MX_OWNED) != 0);
  mx_page_own_again(page);
  mx_page_abandon(page);
}

// A page that is this code's, if it may be changed; else it goes back.
static mx_page_t* hold_common(mx_page_t* page) {
  mx_check(!mx_page_is_huge(page) && (mx_load_relaxed(&page->remote) & MX_OWNED) != 0);
  if (mx_page_hold(page)) return page;
  return_common(page);
  return NULL;
}

// A listed page of the bin `whole` for one block; or NULL. What a thread left of the bin that was
// asked for becomes the theap's instead.
static mx_page_t* take_listed(mx_theap_t* theap, size_t bin, size_t whole) {
  mx_page_t* const page = mx_page_reclaim_briefly(theap->heap, whole);
  if (page == NULL) return NULL;
  mx_check(page->bin == whole && (page->used == 0 || mx_page_has_free(page)));
  if (whole == bin && mx_page_theap(page) != NULL) {
    mx_page_own_again(page);
    mx_theap_adopt(theap, page);
    return NULL;
  }
  return hold_common(page);
}

// The same page, if it has a block; else it goes back.
static mx_page_t* with_block(mx_theap_t* theap, mx_page_t* page, bool* is_zero) {
  mx_check(mx_heap_is_main(mx_page_heap(page)) && !mx_page_is_lent(page));
  if (page->free != NULL || mx_theap_extend(theap, page, is_zero)) return page;
  mx_page_rest(page);
  return_common(page);
  return NULL;
}

static mx_page_t* fresh_common(mx_theap_t* theap, size_t bin, bool* is_zero) {
  mx_page_t* const page = mx_page_fresh(theap->heap, bin);
  mx_subproc_trim(theap->subproc);
  return page != NULL ? with_block(theap, page, is_zero) : NULL;
}

static void* block_of_common(mx_page_t* page, bool zero, bool is_zero) {
  mx_check(page->free != NULL && mx_load_relaxed(&page->owner) == 0);
  mx_block_t* const block = mx_page_pop(page);
  if (zero) memset(block, 0, is_zero ? sizeof(mx_block_t) : page->block_size);
  mx_page_rest(page);
  mx_page_abandon_again(page);
  return block;
}

// ---- the first blocks --------------------------------------------------------------------------

static mx_page_t* take_common(mx_theap_t* theap, size_t bin, bool* is_zero) {
  const size_t whole = mx_bin_of(mx_align_up(mx_bin_size(bin), MX_COMMON_LINE));
  if (whole != bin && mx_load_relaxed(&theap->subproc->listed[bin]) > 0) return NULL;
  mx_page_t* const page = take_listed(theap, bin, whole);
  if (page != NULL) return with_block(theap, page, is_zero);
  return mx_theap_uses(theap, bin) ? NULL : fresh_common(theap, whole, is_zero);
}

void* mx_common_alloc(mx_theap_t* theap, size_t bin, bool zero) {
  mx_check(bin > 0 && bin < MX_BIN_HUGE);
  bool is_zero = false;
  if (!is_among_first(theap, bin)) return NULL;
  mx_page_t* const page = take_common(theap, bin, &is_zero);
  return page != NULL ? block_of_common(page, zero, is_zero) : NULL;
}

// ---- blocks that are passed on -----------------------------------------------------------------

bool mx_common_is_passed(const mx_heap_t* heap, size_t bin) {
  return mx_transfer_overflows(heap->subproc, bin) && mx_common_is_due(heap);
}

// Whether a thread takes blocks that others free, as far as is known. One that frees them itself
// does better with pages of its own.
static bool passes_on(const mx_theap_t* theap) {
  const uint32_t taken = theap->common.taken;
  return taken < PASSED_LEAST || theap->common.freed < taken - taken / PASSED_SHARE;
}

// Pages that threads left serve as well. One that is listed may be full by now, or lent.
static mx_page_t* take_passed(mx_theap_t* theap, size_t bin, bool* is_zero) {
  for (int tries = 0; tries < PASSED_TRIES; tries++) {
    mx_page_t* const listed = mx_page_reclaim_briefly(theap->heap, bin);
    if (listed == NULL) break;
    mx_page_t* const page = hold_common(listed);
    if (page != NULL && with_block(theap, page, is_zero) != NULL) return page;
  }
  return fresh_common(theap, bin, is_zero);
}

void* mx_common_alloc_passed(mx_theap_t* theap, size_t bin, bool zero) {
  bool is_zero = false;
  if (!mx_heap_is_main(theap->heap) || !passes_on(theap)) return NULL;
  mx_page_t* const page = take_passed(theap, bin, &is_zero);
  if (page == NULL) return NULL;
  theap->common.taken++;
  return block_of_common(page, zero, is_zero);
}

void mx_common_age(mx_theap_t* theap) {
  theap->common.taken /= 2;
  theap->common.freed /= 2;
}
