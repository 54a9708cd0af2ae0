// SPDX-License-Identifier: MIT
// One huge page that is kept whole after its block was freed: a program that allocates and
// frees a large buffer in a loop gets it back with two exchanges, where returning and claiming its
// slices, map entries and records costs a microsecond.
//
// The slot is one atomic pointer: the thread that exchanges it for NULL owns the page. A kept page
// is in no list, counts as no block, and its slices stay allocated. What may be kept is what the
// arenas let wait anyway (see arena/purge.c). Only pages of the main heap are kept; hardened builds
// keep none, for the sake of their checks.
#include "huge_cache.h"

#include "../base/options.h"
#include "../os/os.h"
#include "../page/freelist.h"
#include "os_pages.h"

#define KEPT_MAX 512  // slices, 32 MiB

static mx_atomic(mx_page_t*) kept_page;
static mx_atomic(uint64_t) kept_since;  // clock in ms; a hint

static bool may_keep(const mx_page_t* page) {
  mx_check(mx_page_is_huge(page));
  if (MX_CHECKED_FREE || page->arena == NULL || page->arena->is_pinned) return false;
  if (page->arena->is_exclusive || mx_page_heap(page) != &mx_subproc_main.main_heap) return false;
  if (page->slice_count > KEPT_MAX || mx_option(purge_delay) == 0) return false;
  return (intptr_t)page->slice_count <= mx_arenas_may_wait(&mx_subproc_main.arenas);
}

bool mx_huge_cache_put(mx_page_t* page) {
  if (!may_keep(page)) return false;
  page->capacity = page->used = 0;
  mx_store_relaxed(&kept_since, mx_os_clock_msecs());
  mx_page_t* const former = mx_exchange_acq_rel(&kept_page, page);
  if (former != NULL) mx_huge_page_drop(&mx_subproc_main, former);
  return true;
}

static bool fits(const mx_page_t* page, size_t count, size_t align) {
  mx_check(count > 0 && align > 0 && page->arena != NULL);
  return page->slice_count >= count && page->slice_count - count <= count / 8 &&
         mx_is_aligned(page->start, align * MX_SLICE_SIZE);
}

mx_page_t* mx_huge_cache_take(const mx_heap_t* heap, size_t count, size_t align) {
  if (mx_load_relaxed(&kept_page) == NULL || heap != &mx_subproc_main.main_heap) return NULL;
  mx_page_t* const page = mx_exchange_acq_rel(&kept_page, (mx_page_t*)NULL);
  if (page == NULL || fits(page, count, align)) return page;
  // Left where it is, it would only be in the way: of this request, which its memory may serve, and
  // of a block before it that grows.
  mx_huge_page_drop(&mx_subproc_main, page);
  return NULL;
}

void mx_huge_cache_flush(bool force) {
  if (MX_LARGE_APART) mx_huge_spares_flush(force);
  if (mx_load_relaxed(&kept_page) == NULL) return;
  const long delay = mx_option(purge_delay);
  const uint64_t waited = mx_os_clock_msecs() - mx_load_relaxed(&kept_since);
  if (!force && (delay < 0 || waited < (uint64_t)delay)) return;
  mx_page_t* const page = mx_exchange_acq_rel(&kept_page, (mx_page_t*)NULL);
  if (page != NULL) mx_huge_page_drop(&mx_subproc_main, page);
}
