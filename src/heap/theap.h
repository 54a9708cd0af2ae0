// SPDX-License-Identifier: MIT
// A theap's pages: which a bin allocates from, and which go.
#ifndef MX_HEAP_THEAP_H
#define MX_HEAP_THEAP_H

#include "heap.h"

MX_BEGIN_DECLS
// Makes the bin's current page have a free block: the page, or NULL when out of memory. *is_zero:
// the first free block reads as zero but for its link.
mx_page_t* mx_theap_refill(mx_theap_t* theap, size_t bin, bool* is_zero);
// Carves more of a page that this code owns; false when it has no more. *is_zero as above.
bool mx_theap_extend(mx_theap_t* theap, mx_page_t* page, bool* is_zero);
// Releases the bin's current page, which has no live block.
void mx_theap_release_current(mx_theap_t* theap, size_t bin);
// Whether the bin's current page or the one that follows it has a free block, so that a refill
// takes no new memory.
bool mx_theap_has_block(mx_theap_t* theap, size_t bin);
// This thread is about to free into a page of its full list: the page is partial again.
void mx_theap_page_unfull(mx_theap_t* theap, mx_page_t* page);
// A page that is not current became empty by a free of this thread.
void mx_theap_page_emptied(mx_theap_t* theap, mx_page_t* page);
// Takes in a page that this code owns, so that its free blocks get used.
void mx_theap_adopt(mx_theap_t* theap, mx_page_t* page);
// Gives up the last partial page of a bin.
void mx_theap_give_up_last(mx_theap_t* theap, size_t bin);
// Releases what is empty; with force also what is kept for a while.
void mx_theap_collect(mx_theap_t* theap, bool force);
// Gives up all pages.
void mx_theap_abandon_all(mx_theap_t* theap);
// Whether nobody wrote between the blocks of the theap's pages; reports each place where somebody
// did. Its thread only.
bool mx_theap_verify(const mx_theap_t* theap);
// Whether all its lists and pages are as they should be (debug level 3). Its thread only.
bool mx_theap_is_valid(const mx_theap_t* theap);
// Work of every few slow visits; this one is for a request of `size` bytes.
void mx_theap_housekeeping(mx_theap_t* theap, size_t size);
// Runs the program's deferred-free function in this thread, unless it is running.
void mx_theap_deferred_free(mx_theap_t* theap, bool force);
MX_END_DECLS

// Whether the theap has a page of the bin: most threads use a few bins only.
mx_inline bool mx_theap_uses(const mx_theap_t* theap, size_t bin) {
  return theap->bins.current[bin] != &mx_page_none || theap->lists.partial[bin] != NULL ||
         theap->lists.full[bin] != NULL;
}

// For a slow request of a bin: whether its current page was shut (see theap.c). It is no more. A
// handler of a signal in between finds one that is shut, so that the next request opens it.
mx_inline bool mx_theap_opens(mx_theap_t* theap, size_t bin) {
  if (mx_likely(!theap->trimming.shut[bin])) return false;
  mx_check(theap->bins.current[bin] != &mx_page_none);
  if (mx_likely(!theap->sampling.is_on)) theap->bins.front[bin] = theap->bins.current[bin];
  mx_fence_compiler();
  theap->trimming.shut[bin] = false;
  return true;
}

#endif
