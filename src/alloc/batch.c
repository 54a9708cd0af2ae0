// SPDX-License-Identifier: MIT
// The counting of allocations that nobody sees: how the profiler leaves malloc alone.
//
// Whether an allocation is sampled depends on its own size alone, so each bin can be counted by
// itself, and in blocks: with B the size of its blocks, the number of allocations up to the next
// candidate is drawn from a geometric distribution with the probability 1 - exp(-B/R), and a
// candidate that asks for S of the B bytes is a sample with the probability that makes the product
// 1 - exp(-S/R). So what is sampled, and how often, is what it is when every byte is counted.
//
// A bin's front is then a page record of its own, the batch, with blocks of the current page that
// count as used there: at most as many as may be allocated before the next candidate. malloc takes
// them as from any page; free puts a block back into the page that it is of, not into the batch.
// So the batch runs out, however the program frees, and the allocation that finds it empty is slow:
// it is the candidate, or it fetches more. What is left goes back when the page is no longer the
// current one, or is looked into, and counts as not yet allocated again.
#include <string.h>

#include "../heap/theap.h"
#include "../os/thread.h"
#include "../page/freelist.h"
#include "../page/holes.h"
#include "alloc.h"
#include "harden.h"
#include "poisson.h"
#include "sample.h"

// Whether a candidate of a bin is a sample, given what it asks for.
static bool is_sample(const mx_theap_t* theap, size_t size, size_t block_size) {
  const double mean = (double)theap->sampling.mean;
  if (size == block_size) return true;
  return mx_poisson_draw(mx_poisson_share(size, mean) / mx_poisson_share(block_size, mean));
}

static void draw_batch(const mx_theap_t* theap, mx_batch_t* batch, size_t block_size) {
  batch->drawn_at = theap->sampling.seen;
  batch->until = (uint64_t)(mx_poisson_distance((double)theap->sampling.mean) / (double)block_size);
  batch->block_size = block_size;
}

// How many blocks a current page's list has: those that are carved, and neither in use nor holes.
// It counts as one block itself.
static uint64_t list_length(const mx_page_t* page) {
  const uint64_t holes = (mx_page_has_holes(page) ? mx_holes_count(page) : 0);
  return page->capacity - holes - (page->used - 1);
}

// Moves the first blocks of a current page's list to the batch, as many as there may be.
static void fill_batch(mx_batch_t* batch, mx_page_t* page) {
  const uint64_t length = list_length(page);
  const uint64_t count = (length < batch->until ? length : batch->until);
  mx_block_t* const first = page->free;
  mx_block_t* rest = NULL;
  if (count < length) {
    mx_block_t* last = first;
    for (uint64_t i = 1; i < count; i++) last = mx_block_next(page, last);
    rest = mx_block_next(page, last);
    mx_block_set_next(page, last, NULL);
  }
  page->free = rest;
  page->used += (uint32_t)count;
  batch->free = first;
  batch->until -= count;
}

// A block for an allocation that is no sample. One that was a candidate does not count.
static mx_block_t* take_unsampled(mx_theap_t* theap, size_t bin, bool counts, bool* is_zero) {
  mx_batch_t* const batch = &theap->sampling.batches[bin];
  if (theap->bins.current[bin]->free == NULL) {
    theap->visits++;
    mx_theap_housekeeping(theap);
  }
  batch->until += !counts;
  // What ran meanwhile may have filled the batch, or made an end of all batches.
  mx_page_t* page = theap->bins.current[bin];
  if (batch->free == NULL && page->free == NULL) {
    page = mx_theap_refill(theap, bin, is_zero);
    if (page == NULL) return NULL;
  }
  if (!theap->sampling.is_batched) return mx_page_pop(page);
  if (batch->free == NULL) fill_batch(batch, page);
  return mx_page_pop(batch);
}

static void* alloc_unsampled(mx_theap_t* theap, size_t bin, bool counts, bool zero) {
  bool is_zero = false;
  mx_block_t* block = take_unsampled(theap, bin, counts, &is_zero);
  if (mx_unlikely(block == NULL)) {
    mx_alloc_on_pressure(theap);
    block = take_unsampled(theap, bin, true, &is_zero);
  }
  if (block != NULL && zero) memset(block, 0, is_zero ? sizeof(mx_block_t) : mx_bin_size(bin));
  return block;
}

// The candidate. Its caller's frame is what this function's leads to: all on the way here from
// malloc are jumps, or the stack is walked from further inside.
mx_noinline static void* batch_candidate(size_t size, mx_theap_t* theap, size_t bin, bool zero) {
  mx_batch_t* const batch = &theap->sampling.batches[bin];
  const size_t block_size = mx_bin_size(bin);
  const mx_request_t request = {size, 1, false, zero, mx_frame_address()};
  void* p = NULL;
  mx_call_enter();
  draw_batch(theap, batch, block_size);
  if (is_sample(theap, size, block_size)) p = mx_sample_block(theap, &request);
  if (p == NULL) p = alloc_unsampled(theap, bin, false, zero);
  mx_call_leave();
  return p != NULL ? p : mx_alloc_failed(size);
}

mx_noinline static void* batch_visit(size_t size, mx_theap_t* theap, size_t bin, bool zero) {
  mx_batch_t* const batch = &theap->sampling.batches[bin];
  if (mx_unlikely(batch->drawn_at != theap->sampling.seen)) {
    draw_batch(theap, batch, mx_bin_size(bin));
  }
  if (mx_unlikely(batch->until == 0)) return batch_candidate(size, theap, bin, zero);
  mx_call_enter();
  void* const p = alloc_unsampled(theap, bin, true, zero);
  mx_call_leave();
  return p != NULL ? p : mx_alloc_failed(size);
}

// A new batch of all that the page has, without a call: so most of them are.
void* mx_batch_alloc(mx_theap_t* theap, size_t size, bool zero) {
  const size_t bin = mx_bin_of(size == 0 ? 1 : size);
  mx_batch_t* const batch = &theap->sampling.batches[bin];
  mx_page_t* const page = theap->bins.current[bin];
  mx_block_t* const block = page->free;
  const uint64_t length = page->capacity - (page->used - (uint64_t)1);
  if (mx_unlikely(zero || block == NULL || batch->free != NULL || length > batch->until ||
                  batch->drawn_at != theap->sampling.seen || mx_page_has_holes(page))) {
    return batch_visit(size, theap, bin, zero);
  }
  page->free = NULL;
  page->used += (uint32_t)length;
  batch->until -= length;
  batch->free = mx_block_next(page, block);
  return block;
}
