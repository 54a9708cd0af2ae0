// SPDX-License-Identifier: MIT
// What happens when the current page does not serve, and the sizes whose bin takes a table to find.
//
// The way from malloc to a fresh page, all that is on it: mx_alloc_in (fast.h) finds no block and
// calls mx_alloc_small_slow, which has one for a sampled thread; mx_alloc_slow passes by the
// sampling and tries a spare block; alloc_visit begins a call, which a fork has to know of, tries a
// free block of a larger size, counts a visit, with what is due then, and knows what to do without
// memory; alloc_refilled asks mx_theap_refill (heap/theap.c) for a page that has a block. There
// next_page looks for one of the theap's and new_page for a retained one, then mx_page_fresh
// (heap/adopt.c) makes one. docs/architecture.md has it step by step, as a test traces it.
#include <string.h>

#include "../base/hooks.h"
#include "../heap/common.h"
#include "../heap/huge_cache.h"
#include "../heap/parked.h"
#include "../heap/resting.h"
#include "../heap/theap.h"
#include "../heap/thread_life.h"
#include "../heap/transfer.h"
#include "../os/os.h"
#include "alloc.h"
#include "harden.h"
#include "sample.h"
#include "spare.h"

#define KEPT_VISITS 64  // slow visits between two looks at what waited too long

#define LARGER_BINS 6              // the largest of so many is less than twice the request
#define LARGER_CARVED 4            // no larger block for a bin that has carved so many, or
#define LARGER_MOST 64             // that had so many larger ones lately: the counts of all bins
#define LARGER_HALVED 512          // are halved once per so many such blocks
#define LARGER_VISITS 16           // one in so many is a visit

#define SPARE_VISITS 16  // the same of spare blocks,
#define SPARE_MOST 8     // of which a bin has so many

// The largest block that shares a page. Where addresses are scarce, what a large block had is
// nobody's as soon as it is freed.
static size_t shared_most(void) {
  return !MX_HARDEN && MX_PARTS && mx_os_is_scarce() ? MX_SLICE_SIZE : MX_SHARED_MAX;
}

// What another thread freed, where this one would carve new memory.
mx_noinline static void* alloc_passed_on(mx_theap_t* theap, size_t bin, bool zero) {
  mx_check(bin > MX_SMALL_BINS && bin < MX_BIN_HUGE);
  const bool is_kept = mx_transfer_has(theap, bin);
  const bool is_common = mx_common_is_passed(theap->heap, bin);
  if ((!is_kept && !is_common) || mx_theap_has_block(theap, bin)) return NULL;
  mx_block_t* const block = (is_kept ? mx_transfer_take(theap, bin) : NULL);
  if (block != NULL) return zero ? memset(block, 0, mx_bin_size(bin)) : block;
  return is_common ? mx_common_alloc_passed(theap, bin, zero) : NULL;
}

// Whether blocks of `size` bytes are as aligned as one that is just as large as the request: see
// sizeclass.h.
static bool is_as_aligned(size_t size, size_t request) {
  const size_t align = mx_min(mx_block_align(request), MX_SHARED_ALIGN_MAX);
  return (size & (align - 1)) == 0;
}

// Whether a bin would take new memory, and few of its blocks are live.
static bool wants_larger(mx_theap_t* theap, size_t bin) {
  mx_check(bin >= MX_LARGER_BIN && bin < MX_BIN_HUGE);
  if (theap->larger.of[bin - MX_LARGER_BIN] >= LARGER_MOST) return false;
  if (theap->bins.current[bin]->capacity >= LARGER_CARVED) return false;
  if (theap->lists.full_count[bin] > 0) return false;
  if (theap->lists.partial_count[bin] >= LARGER_CARVED) return false;
  return !mx_theap_has_block(theap, bin);
}

mx_cold static void halve_larger(mx_theap_t* theap) {
  for (size_t i = 0; i < sizeof(theap->larger.of); i++) theap->larger.of[i] /= 2;
}

static void count_larger(mx_theap_t* theap, size_t bin) {
  mx_check(theap->larger.of[bin - MX_LARGER_BIN] < LARGER_MOST);
  theap->larger.of[bin - MX_LARGER_BIN]++;
  if (++theap->larger.count % LARGER_HALVED == 0) halve_larger(theap);
}

// A free block of a larger size, for a bin of few blocks: otherwise each bin has as much memory as
// it ever had live blocks at once. Above 8 KiB a new block is OS pages that have to be had first.
// Not in builds that check blocks: they keep sizes apart.
static void* alloc_larger(mx_theap_t* theap, size_t size, bool zero) {
  if (MX_HARDEN || size <= 8 * MX_KIB || size > MX_SHARED_MAX) return NULL;
  const size_t bin = mx_bin_of(size);
  if (mx_sample_has_changed(theap) || !wants_larger(theap, bin)) return NULL;
  const size_t last = mx_min(bin + LARGER_BINS, MX_BIN_HUGE - 1);
  for (size_t i = bin + 1; i <= last; i++) {
    mx_page_t* const page = theap->bins.current[i];
    if (page->free == NULL || !is_as_aligned(page->block_size, size)) continue;
    mx_check(page->bin == i && page->block_size >= size && mx_page_is_mine(page));
    mx_theap_opens(theap, i);  // it is in use
    mx_block_t* const block = mx_page_pop(page);
    count_larger(theap, bin);
    return zero ? memset(block, 0, page->block_size) : block;
  }
  return NULL;
}

// From a page that has a block for certain, or a page of its own.
static void* alloc_refilled(mx_theap_t* theap, size_t size, bool zero) {
  mx_check(mx_load_relaxed(&theap->heap) != NULL && theap->tid == mx_thread_id());
  if (MX_ZERO_BLOCKS && size == 0) return mx_zero_sized_alloc(1);
  const size_t padded = (size == 0 ? 1 : size) + MX_PAD;
  if (mx_unlikely(padded > MX_SLICE_SIZE) && padded > shared_most()) {
    // As large as mx_good_size says.
    const size_t whole = (padded > MX_SHARED_MAX ? size : mx_bin_size(mx_bin_of(padded)));
    void* const p = mx_huge_alloc(theap->heap, whole, 1, false, zero);
    if (MX_HARDEN) mx_harden_alloc_huge(p, size, zero);
    return p;
  }
  const size_t bin = mx_bin_of(padded);
  if (MX_TRANSFERS && padded > MX_SMALL_MAX && mx_load_relaxed(&mx_has_transfers)) {
    void* const p = alloc_passed_on(theap, bin, zero);
    if (p != NULL) return p;
  }
  if (MX_COMMON_PAGES && mx_unlikely(!mx_theap_uses(theap, bin))) {
    void* const p = mx_common_alloc(theap, bin, zero);
    if (p != NULL) return p;
  }
  bool is_zero;
  mx_page_t* const page = mx_theap_refill(theap, bin, &is_zero);
  if (page == NULL) return NULL;
  mx_check(page->bin == bin && page->block_size >= padded);
  mx_check(page->free != NULL && theap->bins.current[bin] == page && mx_page_is_mine(page));
  mx_block_t* const block = mx_page_pop(page);
  if (MX_HARDEN) mx_harden_alloc(page, block, size, zero, is_zero);
  else if (zero) memset(block, 0, is_zero ? sizeof(mx_block_t) : page->block_size);
  return block;
}

// As the option check_every asks for.
static void check_some(const mx_theap_t* theap) {
  const long every = mx_option(check_every);
  if (mx_likely(every <= 0) || theap->visits % (unsigned long)every != 0) return;
  mx_theap_verify(theap);
  mx_subproc_verify_resting(theap->subproc);
}

static void note_visit(mx_theap_t* theap, size_t size) {
  theap->visits++;
  mx_theap_housekeeping(theap, size);
  if (MX_PADDING) check_some(theap);
  if (theap->visits % KEPT_VISITS != 0) return;
  mx_huge_cache_flush(false);
  mx_spare_flush(theap);
  mx_common_age(theap);
  mx_transfer_flush(false);
  mx_parked_give_up(theap->subproc, false);
}

mx_cold void mx_alloc_on_pressure(mx_theap_t* theap) {
  mx_check(theap->tid == mx_thread_id());
  mx_spare_flush(theap);
  mx_check(theap->first->spares.bytes == 0);
  mx_theap_collect(theap, true);
  mx_huge_cache_flush(true);
  mx_parked_give_up(theap->subproc, true);
  mx_arenas_purge(&theap->subproc->arenas, true);
}

mx_cold void* mx_alloc_failed(size_t size) {
  mx_error(ENOMEM, "unable to allocate memory (%zu bytes)\n", size);
  if (mx_hooks.memory_ran_out != NULL && size <= MX_MAX_ALLOC) mx_hooks.memory_ran_out();
  mx_os_set_errno(ENOMEM);
  return NULL;
}

// One visit of the slow path, for a theap that may still have to be made.
mx_noinline static void* alloc_visit(size_t size, mx_theap_t* theap, bool zero) {
  void* p = NULL;
  mx_call_enter();
  if (mx_unlikely(theap->heap == NULL)) theap = mx_thread_theap();
  if (mx_likely(theap != NULL && size <= MX_BLOCK_MAX)) {
    p = alloc_larger(theap, size, zero);
    if (p == NULL || theap->larger.count % LARGER_VISITS == 0) note_visit(theap, size);
    if (p == NULL && mx_sample_has_changed(theap)) p = mx_sample_begin(theap, size, zero);
    if (p == NULL) p = alloc_refilled(theap, size, zero);
    if (mx_unlikely(p == NULL)) {
      mx_alloc_on_pressure(theap);
      p = alloc_refilled(theap, size, zero);
    }
  } else if (theap != NULL && size > MX_MAX_ALLOC) {
    mx_error(EOVERFLOW, "allocation request is too large (%zu bytes)\n", size);
  }
  if (mx_unlikely(p == NULL)) mx_alloc_failed(size);
  mx_call_leave();
  return p;
}

// ---- from a page by the size's bin -------------------------------------------------------------

typedef void* alloc_fn(size_t size, mx_theap_t* theap, bool zero);

// Takes a block of one of `pages`, a page for each bin: the front, or the current pages behind it.
// What that does not serve is left to `otherwise`. Above MX_SMALL_MAX a comparison is saved.
mx_inline void* alloc_from(mx_page_t* const* pages, size_t size, mx_theap_t* theap, bool zero,
                           bool is_medium, alloc_fn* otherwise) {
  if (MX_ZERO_BLOCKS && size == 0) return otherwise(size, theap, zero);
  const size_t padded = (!is_medium && size == 0 ? 1 : size) + MX_PAD;
  mx_page_t* page;
  if (is_medium && mx_likely(size <= MX_BIN_TABLE_MAX - MX_PAD)) {
    page = pages[mx_bin_of_medium(padded)];
  } else if (mx_likely(size <= MX_BIN_MAX_SIZE - MX_PAD)) {
    page = pages[mx_bin_of(padded)];
  } else {
    return otherwise(size, theap, zero);
  }
  mx_block_t* const block = (zero ? mx_take_zero(page, size, false) : mx_take(page, size, false));
  if (mx_unlikely(block == NULL)) return otherwise(size, theap, zero);
  return block;
}

// ---- sampled threads ---------------------------------------------------------------------------

// What the fast path does, which had nothing to look at but an empty front. No frame, but for
// zeroes.
mx_cold static void* alloc_zero_behind_front(size_t size, mx_theap_t* theap) {
  return alloc_from(theap->bins.current, size, theap, true, false, &alloc_visit);
}

mx_noinline static void* alloc_behind_front(size_t size, mx_theap_t* theap, bool zero) {
  if (mx_unlikely(zero)) return alloc_zero_behind_front(size, theap);
  return alloc_from(theap->bins.current, size, theap, false, false, &alloc_visit);
}

// On the way here from malloc are jumps only, where the compiler makes them: the stack is walked
// from this function's caller on.
mx_cold static void* alloc_due_sample(size_t size, mx_theap_t* theap, bool zero) {
  void* p = NULL;
  if (size <= MX_MAX_ALLOC) {
    mx_call_enter();
    note_visit(theap, size);  // with a high rate there are no others
    p = mx_sample_turn(theap, size, zero, MX_HARDEN ? NULL : mx_frame_address());
    mx_call_leave();
  }
  return p != NULL ? p : alloc_visit(size, theap, zero);
}

// What mx_alloc_slow does not do itself. No frame.
mx_cold static void* alloc_sampled(size_t size, mx_theap_t* theap, bool zero) {
  mx_check(theap->sampling.is_on);
  if (mx_unlikely(!mx_sample_is_on_credit(&theap->sampling, size)) &&
      mx_sample_is_due(theap, size)) {
    return alloc_due_sample(size, theap, zero);
  }
  return alloc_behind_front(size, theap, zero);
}

// ---- the ways to here --------------------------------------------------------------------------

// What this thread freed of a page that nobody has. One in so many is a visit all the same.
mx_inline void* alloc_spare(size_t bin, mx_theap_t* theap, bool zero) {
  if (!MX_TRANSFERS || mx_likely(theap->spares.bytes == 0)) return NULL;
  mx_spare_slot_t* const slot = &theap->spares.slots[bin % MX_SPARE_SLOTS];
  mx_block_t* const block = slot->waiting;
  if (block == NULL || slot->bin != bin) return NULL;
  mx_check(slot->count > 0 && theap->spares.bytes >= mx_bin_size(bin));
  if (++theap->spares.takes % SPARE_VISITS == 0) return NULL;
  slot->waiting = (mx_block_t*)block->next;
  slot->count--;
  if (slot->most < SPARE_MOST - 1) slot->most++;
  theap->spares.bytes -= (uint32_t)mx_bin_size(bin);
  return zero ? memset(block, 0, mx_bin_size(bin)) : block;
}

mx_noinline void* mx_alloc_slow(size_t size, mx_theap_t* theap, bool zero) {
  if (mx_unlikely(theap->sampling.is_on)) return alloc_sampled(size, theap, zero);
  if (mx_likely(size <= MX_SHARED_MAX - MX_PAD)) {
    const size_t bin = mx_bin_of(MX_PAD == 0 && size == 0 ? 1 : size + MX_PAD);
    if (mx_unlikely(mx_theap_opens(theap, bin))) return alloc_behind_front(size, theap, zero);
    void* const p = alloc_spare(bin, theap, zero);
    if (p != NULL) return p;
  }
  return alloc_visit(size, theap, zero);
}

// Nearly all that a program allocates comes by here while it is sampled.
mx_noinline void* mx_alloc_small_slow(size_t size, mx_theap_t* theap) {
  void* const p = mx_alloc_counted(theap, size);
  return mx_likely(p != NULL) ? p : mx_alloc_slow(size, theap, false);
}

mx_noinline void* mx_alloc_medium(size_t size, mx_theap_t* theap) {
  return alloc_from(theap->bins.front, size, theap, false, true, &mx_alloc_slow);
}

void* mx_zalloc_in(mx_theap_t* theap, size_t size) {
  return alloc_from(theap->bins.front, size, theap, true, false, &mx_alloc_slow);
}

#define CLEAR_MEDIUM_MAX 512

// Clears 64 bytes to so many with stores that may overlap: so short, memset takes longer.
mx_inline void clear_medium(uint8_t* p, size_t size) {
  static const struct { uint64_t words[16]; } zero = {{0}};
  uint8_t* const end = p + size;
  mx_check(size >= sizeof(zero) / 2);
  if (size <= sizeof(zero)) {
    memcpy(p, &zero, sizeof(zero) / 2);
    memcpy(end - sizeof(zero) / 2, &zero, sizeof(zero) / 2);
    return;
  }
  memcpy(p, &zero, sizeof(zero));
  memcpy(end - sizeof(zero), &zero, sizeof(zero));
  if (mx_likely(size <= 2 * sizeof(zero))) return;
  for (uint8_t* at = p + sizeof(zero); at + sizeof(zero) < end; at += sizeof(zero)) {
    memcpy(at, &zero, sizeof(zero));
  }
}

// As mx_calloc_medium, while it is sampled: short code, as it is in every program.
mx_noinline static void* calloc_medium_slow(size_t total, mx_theap_t* theap) {
  static const struct { uint64_t words[8]; } zero = {{0}};
  uint8_t* const p = (MX_HARDEN || total > CLEAR_MEDIUM_MAX
                          ? NULL : (uint8_t*)mx_alloc_counted(theap, total));
  if (p == NULL) return mx_zalloc_in(theap, total);
  uint8_t *at = p, *const last = p + mx_align_up(total, MX_ALIGN) - sizeof(zero);
  mx_check(last >= p);
  do {
    memcpy(at, &zero, sizeof(zero));
    at += sizeof(zero);
  } while (at < last);
  memcpy(last, &zero, sizeof(zero));
  return p;
}

mx_noinline void* mx_calloc_medium(size_t total, mx_theap_t* theap) {
  const bool is_short = (total - MX_SIZE_MIN <= CLEAR_MEDIUM_MAX - MX_PAD - MX_SIZE_MIN);
  if (mx_unlikely(!is_short)) return calloc_medium_slow(total, theap);
  mx_page_t* const page = theap->bins.front[(total + MX_PAD + MX_ALIGN - 1) / MX_ALIGN];
  mx_block_t* const block = mx_take(page, total, true);
  if (mx_unlikely(block == NULL)) return calloc_medium_slow(total, theap);
  clear_medium((uint8_t*)block, page->block_size - MX_PAD);
  return block;
}

mx_noinline void* mx_calloc_slow(size_t count, size_t size, mx_theap_t* theap) {
  size_t total;
  if (mx_mul_overflow(count, size, &total)) total = SIZE_MAX;
  void* const p = (!MX_HARDEN && total <= 64 ? mx_alloc_counted(theap, total) : NULL);
  if (p == NULL) return mx_zalloc_in(theap, total);
  mx_clear_small((uint8_t*)p, mx_align_up(total, MX_ALIGN));
  return p;
}
