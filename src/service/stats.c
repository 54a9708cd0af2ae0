// SPDX-License-Identifier: MIT
// The collecting of statistics into records.
//
// Memory from the OS is counted once for the process, everything else by heap. So the record of a
// heap has no reserved or committed memory; that of the main sub-process has all of it, since the
// mappings are shared; another sub-process shows what its own arenas hold.
#include "stats.h"

#include "../alloc/spare.h"
#include "../base/facts.h"
#include "../heap/transfer.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../os/thread.h"

// ---- bins of the record ------------------------------------------------------------------------

// Up to 64 bytes a bin for each 8, then 4 to a doubling, up to 4 MiB; the last for all above.
#define STAT_WORD ((size_t)8)
#define STAT_LINEAR_MAX ((size_t)64)
#define STAT_LINEAR_BINS (STAT_LINEAR_MAX / STAT_WORD)
#define STAT_HUGE_MARK ((size_t)524296)

size_t mx_stats_bin_size(size_t stat_bin) {
  if (stat_bin == 0) return STAT_WORD;
  if (stat_bin <= STAT_LINEAR_BINS) return stat_bin * STAT_WORD;
  if (stat_bin > MI_BIN_HUGE) return 0;
  if (stat_bin == MI_BIN_HUGE) return STAT_HUGE_MARK;
  const size_t k = stat_bin - (STAT_LINEAR_BINS + 1);
  return (5 + (k & 3)) << (4 + (k >> 2));
}

size_t mx_stats_bin_of(size_t block_size) {
  if (block_size <= STAT_LINEAR_MAX) return mx_max(1, mx_div_up(block_size, STAT_WORD));
  if (block_size > mx_stats_bin_size(MI_BIN_HUGE - 1)) return MI_BIN_HUGE;
  const size_t top = block_size - 1;
  const unsigned e = mx_bit_high(top);
  return STAT_LINEAR_BINS + 1 + (e - 6) * 4 + ((top >> (e - 2)) & 3);
}

static size_t stat_bin_of_bin(size_t bin) {
  return bin == MX_BIN_HUGE ? MI_BIN_HUGE : mx_stats_bin_of(mx_bin_size(bin));
}

// ---- counters to records -----------------------------------------------------------------------

// Peaks of two owners were not reached together, so the higher one stands, or the present sum.
static void tally_count(mi_stat_count_t* to, mx_count_t* from) {
  to->current += mx_load_relaxed(&from->current);
  to->total += mx_load_relaxed(&from->total);
  const int64_t peak = mx_load_relaxed(&from->peak);
  if (peak > to->peak) to->peak = peak;
}

static void tally_counter(mi_stat_counter_t* to, mx_atomic(int64_t)* from) {
  to->total += mx_load_relaxed(from);
}

// The fields that have the same name on both sides.
#define SHARED_FIELDS(X, Y)                                                                     \
  X(pages) X(reserved) X(committed) X(page_committed) X(pages_abandoned) X(threads)             \
  X(malloc_huge) X(heaps) X(theaps)                                                             \
  Y(reset) Y(purged) Y(mmap_calls) Y(commit_calls) Y(reset_calls) Y(purge_calls) Y(arena_count) \
  Y(malloc_huge_count) Y(malloc_guarded_count) Y(arena_rollback_count) Y(arena_purges)          \
  Y(pages_extended) Y(pages_retire) Y(page_searches) Y(page_searches_count)                     \
  Y(pages_reclaim_on_alloc) Y(pages_reclaim_on_free) Y(heaps_delete_wait)

#define TALLY_COUNT(name) tally_count(&stats->name, &counters->name);
#define TALLY_COUNTER(name) tally_counter(&stats->name, &counters->name);

static void add_counters(mi_stats_t* stats, mx_counters_t* counters) {
  SHARED_FIELDS(TALLY_COUNT, TALLY_COUNTER)
  tally_count(&stats->mx_stat_metadata, &counters->metadata);
  tally_count(&stats->mx_stat_waiting, &counters->waiting);
  tally_counter(&stats->mx_stat_holes_purged, &counters->holes_purged);
  for (size_t bin = 1; bin < MX_BIN_COUNT; bin++) {
    tally_count(&stats->page_bins[stat_bin_of_bin(bin)], &counters->bin_pages[bin]);
  }
}

// Also what its threads count by themselves.
static void add_heap(mi_stats_t* stats, mx_heap_t* heap) {
  add_counters(stats, &heap->counters);
  mx_lock_acquire(&heap->lock);
  for (mx_theap_t* theap = heap->theaps; theap != NULL; theap = theap->links.next_in_heap) {
    tally_counter(&stats->pages_reclaim_on_free, &theap->counted.reclaims);
    tally_counter(&stats->pages_extended, &theap->counted.extends);
    tally_counter(&stats->pages_retire, &theap->counted.retires);
  }
  mx_lock_release(&heap->lock);
}

static void make_count_consistent(mi_stat_count_t* c) {
  if (c->current < 0) c->current = 0;
  if (c->peak < c->current) c->peak = c->current;
  if (c->total < c->peak) c->total = c->peak;
}

// Irons out what was in the middle of a change.
static void make_consistent(mi_stats_t* stats) {
  for (size_t i = 0; i < mx_stat_field_count; i++) {
    const mx_stat_field_t* const field = &mx_stat_fields[i];
    if (field->kind == MX_STAT_COUNTER) continue;
    make_count_consistent((mi_stat_count_t*)((char*)stats + field->offset));
  }
  for (size_t i = 0; i <= MI_BIN_HUGE; i++) {
    make_count_consistent(&stats->page_bins[i]);
    make_count_consistent(&stats->malloc_bins[i]);
  }
}

// ---- live blocks -------------------------------------------------------------------------------

// Nobody counts blocks when they are made and freed: their pages know how many there are. Other
// threads may use the pages meanwhile, so this is what there was of each at about this moment.
mx_unsynchronised static void add_blocks(mi_stats_t* stats, const mx_page_t* page) {
  if (mx_page_is_huge(page) || page->bin == 0) return;
  const bool is_current = ((mx_load_relaxed(&page->lend) & MX_PAGE_RESTS) == 0);
  const size_t used = mx_peek_uint32(&page->used), capacity = mx_peek_uint32(&page->capacity);
  const size_t size = page->block_size;
  const size_t live = mx_min(used - (is_current && used > 0 ? 1 : 0), capacity);
  stats->malloc_bins[stat_bin_of_bin(page->bin)].current += (int64_t)live;
  stats->malloc_normal.current += (int64_t)(live * size);
  stats->page_committed.current += (int64_t)(capacity * size);
}

// Of one heap, or of all with NULL.
static void add_blocks_of(mi_stats_t* stats, mx_subproc_t* subproc, const mx_heap_t* heap) {
  const size_t count = mx_load_acquire(&subproc->arenas.count);
  for (size_t i = 0; i < count; i++) {
    const mx_arena_t* const arena = mx_arena_at(&subproc->arenas, i);
    size_t index = 0;
    for (mx_page_t* page; arena != NULL && (page = mx_page_next_in(arena, &index)) != NULL;) {
      if (heap == NULL || mx_page_heap(page) == heap) add_blocks(stats, page);
    }
  }
}

void mx_stats_of_heap(mx_heap_t* heap, mi_stats_t* stats) {
  mi_stats_init(stats);
  add_heap(stats, heap);
  if (heap->subproc != NULL) add_blocks_of(stats, heap->subproc, heap);
  make_consistent(stats);
}

// ---- sub-processes -----------------------------------------------------------------------------

static void set_count(mi_stat_count_t* c, size_t value) {
  c->total = c->peak = c->current = (int64_t)value;
}

// What the arenas of a sub-process hold now; its past is not counted apart.
static void add_arenas(mx_subproc_t* subproc, mi_stats_t* stats) {
  size_t reserved = 0, committed = 0;
  const size_t count = mx_load_acquire(&subproc->arenas.count);
  for (size_t i = 0; i < count; i++) {
    const mx_arena_t* const arena = mx_arena_at(&subproc->arenas, i);
    if (arena == NULL) continue;
    reserved += arena->slices * MX_SLICE_SIZE;
    const size_t bits = arena->slices * mx_arena_bits_per_slice();
    committed +=
        mx_bits_count(arena->present, 0, bits) * (MX_SLICE_SIZE / mx_arena_bits_per_slice());
  }
  set_count(&stats->reserved, reserved);
  set_count(&stats->committed, committed);
  stats->arena_count.total = (int64_t)count;
}

// Everything of a sub-process that is not counted for the process as a whole.
static void add_subproc(mx_subproc_t* subproc, mi_stats_t* stats, bool with_heaps) {
  add_counters(stats, &subproc->counters);
  if (with_heaps) {
    mx_lock_acquire(&subproc->lock);
    for (mx_heap_t* heap = subproc->heaps; heap != NULL; heap = heap->next) {
      add_heap(stats, heap);
    }
    mx_lock_release(&subproc->lock);
    add_blocks_of(stats, subproc, NULL);
  }
  const intptr_t purgeable = mx_load_relaxed(&subproc->arenas.purgeable);
  stats->mx_stat_waiting.current += (int64_t)purgeable * (int64_t)MX_SLICE_SIZE;
}

static void collect_subproc(mx_subproc_t* subproc, mi_stats_t* stats, bool with_heaps) {
  mi_stats_init(stats);
  add_subproc(subproc, stats, with_heaps);
  if (subproc == &mx_subproc_main) add_counters(stats, &mx_process_counters);
  else add_arenas(subproc, stats);
  make_consistent(stats);
}

void mx_stats_of_subproc(mx_subproc_t* subproc, mi_stats_t* stats) {
  collect_subproc(subproc, stats, true);
}

void mx_stats_of_subproc_alone(mx_subproc_t* subproc, mi_stats_t* stats) {
  collect_subproc(subproc, stats, false);
}

void mx_stats_of_process(mi_stats_t* stats) {
  mi_stats_init(stats);
  for (mx_subproc_t* subproc = &mx_subproc_main; subproc != NULL; subproc = subproc->next) {
    add_subproc(subproc, stats, true);
  }
  add_counters(stats, &mx_process_counters);
  make_consistent(stats);
}

// ---- threads -----------------------------------------------------------------------------------

static void add_page(mi_stats_t* stats, mx_page_t* page, bool is_current) {
  mx_page_collect(page);
  // A current page is in use by its thread, too, which is no block.
  const size_t live = page->used - (is_current ? 1 : 0);
  const size_t stat_bin = stat_bin_of_bin(page->bin);
  stats->pages.current++;
  stats->page_bins[stat_bin].current++;
  stats->page_committed.current += (int64_t)(page->capacity * page->block_size);
  stats->malloc_bins[stat_bin].current += (int64_t)live;
  stats->malloc_normal.current += (int64_t)(live * page->block_size);
}

static void add_pages(mi_stats_t* stats, mx_page_t* page) {
  for (; page != NULL; page = page->next) add_page(stats, page, false);
}

static void add_theap(mi_stats_t* stats, mx_theap_t* theap) {
  stats->theaps.current++;
  for (size_t bin = 1; bin < MX_BIN_COUNT; bin++) {
    if (theap->bins.current[bin] != &mx_page_none) add_page(stats, theap->bins.current[bin], true);
    add_pages(stats, theap->lists.partial[bin]);
    add_pages(stats, theap->lists.full[bin]);
  }
}

void mx_stats_of_thread(mi_stats_t* stats) {
  mi_stats_init(stats);
  mx_theap_t* theap = mx_tls_theap;
  if (theap == NULL || theap == &mx_theap_empty) return;
  stats->threads.current = 1;
  mx_spare_flush(mx_tls_theap);
  mx_transfer_flush(true);
  for (theap = theap->first; theap != NULL; theap = theap->links.next_in_thread) {
    add_theap(stats, theap);
  }
  make_consistent(stats);
}

// ---- the process -------------------------------------------------------------------------------

static mx_at_start mx_atomic(uint64_t) start_msecs;

void mx_stats_init(void) {
  uint64_t none = 0;
  mx_cas_strong_acq_rel(&start_msecs, &none, mx_os_clock_msecs());
}

void mx_process_stats(mx_process_stats_t* info) {
  mx_stats_init();
  mx_process_info_t os;
  mx_os_process_info(&os);
  info->elapsed_msecs = mx_os_clock_msecs() - mx_load_relaxed(&start_msecs);
  info->user_msecs = os.user_msecs;
  info->system_msecs = os.system_msecs;
  info->current_rss = os.current_rss;
  info->peak_rss = os.peak_rss;
  info->page_faults = os.page_faults;
  mi_stat_count_t committed = {0, 0, 0};
  tally_count(&committed, &mx_process_counters.committed);
  make_count_consistent(&committed);
  info->current_commit = (size_t)committed.current;
  info->peak_commit = (size_t)committed.peak;
}
