// SPDX-License-Identifier: MIT
// Huge pages that are kept whole after their blocks were freed: a program that allocates and frees
// a large buffer in a loop gets it back with two exchanges, where returning and claiming its
// slices, map entries and records costs a microsecond. One is kept, but of small ones a few of each
// size: those are sampled blocks, which a program that is profiled allocates and frees in any
// order, and any other place for one is an OS page that nobody used before.
//
// A slot is an atomic pointer: the thread that exchanges it for NULL owns the page. A kept page is
// in no list, counts as no block, and its slices stay allocated. What may be kept is what the
// arenas let wait anyway (see arena/purge.c). Only pages of the main heap are kept; hardened builds
// keep none, for the sake of their checks.
#include "huge_cache.h"

#include "../base/options.h"
#include "../os/os.h"
#include "../page/freelist.h"
#include "os_pages.h"

#define KEPT_MAX 512  // slices, 32 MiB
#define SMALL_MAX 8   // slices
#define SMALL_PLACES 8

// The first is for all sizes that are not small, of the others so many for each size.
#define KEPT_SLOTS (1 + SMALL_MAX * SMALL_PLACES)
static mx_atomic(mx_page_t*) kept_pages[KEPT_SLOTS];
static mx_atomic(uint64_t) kept_since;  // of the last one, clock in ms; 0: none is kept

static bool may_keep(const mx_page_t* page) {
  mx_check(mx_page_is_huge(page));
  if (MX_CHECKED_FREE || mx_os_is_scarce()) return false;
  if (page->arena == NULL || page->arena->is_pinned) return false;
  if (page->arena->is_exclusive || mx_page_heap(page) != &mx_subproc_main.main_heap) return false;
  if (page->slice_count > KEPT_MAX || mx_option(purge_delay) == 0) return false;
  return (intptr_t)page->slice_count <= mx_arenas_may_wait(&mx_subproc_main.arenas);
}

typedef mx_atomic(mx_page_t*) slot_t;

// The slots for pages of a size: *end lies behind them.
static slot_t* slots_of(size_t count, slot_t** end) {
  const bool is_small = (count <= SMALL_MAX);
  slot_t* const first = &kept_pages[is_small ? 1 + (count - 1) * SMALL_PLACES : 0];
  *end = first + (is_small ? SMALL_PLACES : 1);
  return first;
}

static mx_page_t* take_from(slot_t* slot) { return mx_take_any(slot, (mx_page_t*)NULL); }

bool mx_huge_cache_put(mx_page_t* page) {
  if (!may_keep(page)) return false;
  mx_check(mx_load_relaxed(&page->owner) == 0);
  page->capacity = page->used = 0;
  slot_t* end;
  slot_t* slot = slots_of(page->slice_count, &end);
  while (slot + 1 < end && mx_load_relaxed(slot) != NULL) slot++;
  mx_page_t* const former = mx_exchange_acq_rel(slot, page);
  mx_store_relaxed(&kept_since, mx_os_clock_msecs());
  if (former != NULL) mx_huge_page_drop(&mx_subproc_main, former);
  return true;
}

mx_page_t* mx_huge_cache_take(const mx_heap_t* heap, size_t count, size_t align) {
  if (heap != &mx_subproc_main.main_heap) return NULL;
  slot_t* slot;
  slot_t* const first = slots_of(count, &slot);
  mx_page_t* page = NULL;
  while (page == NULL && slot > first) page = take_from(--slot);
  if (page == NULL) return NULL;
  mx_check(page->used == 0 && mx_load_relaxed(&page->owner) == 0);
  const bool fits = (page->slice_count >= count && page->slice_count - count <= count / 8);
  if (fits && mx_is_aligned(page->start, align * MX_SLICE_SIZE)) return page;
  // Left where it is, it would only be in the way: of this request, which its memory may serve, and
  // of a block before it that grows.
  mx_huge_page_drop(&mx_subproc_main, page);
  return NULL;
}

void mx_huge_cache_flush(bool force) {
  if (MX_LARGE_APART) mx_huge_kept_flush(force);
  uint64_t since = mx_load_relaxed(&kept_since);
  const long delay = mx_option(purge_delay);
  // -1 is more than any time.
  const bool may_wait = (since == 0 || mx_os_clock_msecs() - since < (uint64_t)delay);
  if (!force && may_wait) return;
  // Whoever keeps a page meanwhile says when.
  mx_cas_strong_acq_rel(&kept_since, &since, (uint64_t)0);
  for (size_t i = 0; i < KEPT_SLOTS; i++) {
    mx_page_t* const page = take_from(&kept_pages[i]);
    if (page != NULL) mx_huge_page_drop(&mx_subproc_main, page);
  }
}
