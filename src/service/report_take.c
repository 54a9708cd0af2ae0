// SPDX-License-Identifier: MIT
// The taking of a report: a walk over what the library has, and one over the mappings of the
// process for all else.
//
// What is anonymous in the process and not the library's is the difference of the two walks. A page
// of zeros that was only read takes no memory, but to older kernels looks like one that a fork left
// to two processes. Of those the walk may find more than the mappings are said to share: so many
// are zeros, and every row is made less by its part of them.
#include <string.h>

#include "../alloc/guarded.h"
#include "../base/facts.h"
#include "../heap/subproc.h"
#include "../host/process.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../os/thread.h"
#include "../page/holes.h"
#include "../page/padding.h"
#include "../page/remote.h"
#include "../profile/profile.h"
#include "report.h"

// Threads whose state is remembered while pages are walked.
#define SEEN_THREADS 64

typedef struct seen_s {
  const mx_theap_t* first;
  bool sleeps;
} seen_t;

typedef struct taking_s {
  mx_report_t* report;
  mx_residence_t residence;
  const mx_arena_t* arena;  // whose bits say what is present where the system does not
  size_t anonymous;         // of the process, and what of it others have, too
  size_t shared;
  size_t apart;             // the library's in mappings that are counted elsewhere
  uintptr_t huge_from, huge_to;  // between them lies what is in huge OS pages
  seen_t seen[SEEN_THREADS];
} taking_t;

// ---- what is present ---------------------------------------------------------------------------

static size_t present_in_arena(const mx_arena_t* arena, const uint8_t* start, size_t size) {
  const uint8_t* const end = start + size;
  const size_t unit = MX_SLICE_SIZE / mx_arena_bits_per_slice();
  size_t bytes = 0;
  for (const uint8_t* at = start; at < end;) {
    const size_t offset = (size_t)(at - arena->start);
    const size_t length = mx_min(unit - offset % unit, (size_t)(end - at));
    if (mx_bits_test(arena->present, mx_arena_bit_of(arena, at))) bytes += length;
    at += length;
  }
  return bytes;
}

static mx_present_t resident_of(taking_t* t, const void* start, size_t size) {
  mx_present_t sum = {0, 0};
  if (mx_residence_add(&t->residence, start, size, &sum)) return sum;
  t->report->is_exact = false;
  sum.shared = 0;
  sum.bytes = size;
  if (t->arena != NULL) sum.bytes = present_in_arena(t->arena, (const uint8_t*)start, size);
  return sum;
}

static void add_row(taking_t* t, mx_report_row_t row, size_t bytes, const mx_present_t* of) {
  mx_present_t* const sum = &t->report->rows[row];
  sum->bytes += bytes;
  if (of->shared > 0) sum->shared += (size_t)((double)of->shared * bytes / (double)of->bytes);
}

static void add_all(taking_t* t, mx_report_row_t row, const void* start, size_t size) {
  const mx_present_t p = resident_of(t, start, size);
  add_row(t, row, p.bytes, &p);
}

// ---- threads and heaps -------------------------------------------------------------------------

// Records are never given back, so a page that changes hands meanwhile leads to a record all the
// same.
static bool owner_sleeps(taking_t* t, const mx_page_t* page) {
  const mx_theap_t* const theap = mx_page_theap(page);
  const mx_theap_t* const first = (theap == NULL ? NULL : theap->first);
  if (first == NULL) return false;
  seen_t* const seen = &t->seen[((uintptr_t)first / sizeof(mx_theap_t)) % SEEN_THREADS];
  if (seen->first != first) {
    const uint32_t number = first->thread.number;
    seen->first = first;
    seen->sleeps = (number != mx_os_thread_number() && mx_host_thread_sleeps(number));
  }
  return seen->sleeps;
}

static mx_report_heap_t* entry_of(mx_report_t* report, const mx_heap_t* heap) {
  size_t i = 0;
  while (i < report->heap_count && report->heaps[i].heap != heap) i++;
  mx_report_heap_t* const entry = &report->heaps[i];
  if (i < report->heap_count || i == MX_REPORT_HEAPS) return entry;
  report->heap_count++;
  entry->heap = heap;
  entry->id = mx_load_relaxed(&heap->id);
  entry->tag = heap->tag;
  return entry;
}

static void add_blocks_by(taking_t* t, const mx_page_t* page, size_t blocks, size_t live,
                          size_t free_bytes) {
  mx_report_t* const report = t->report;
  mx_report_bin_t* const bin = &report->bins[page->bin];
  bin->blocks += blocks;
  bin->live += live;
  bin->free += free_bytes;
  const mx_heap_t* const heap = mx_page_heap(page);
  if (heap == NULL) return;
  mx_report_heap_t* const entry = entry_of(report, heap);
  entry->live += live;
  entry->free += free_bytes;
}

// ---- pages -------------------------------------------------------------------------------------

// Why the free blocks of a page are kept.
static mx_report_row_t row_of_free(taking_t* t, const mx_page_t* page, size_t live) {
  const bool is_owned = mx_page_has_thread(page);
  const uint8_t lend = mx_load_relaxed(&page->lend);
  const bool is_current = (is_owned && (lend & MX_PAGE_RESTS) == 0);
  if (is_current) return MX_ROW_free_current;
  if (live == 0) return MX_ROW_free_empty;
  if ((lend & MX_PAGE_HOLES) != 0) return MX_ROW_free_pinned;
  if (!is_owned) return MX_ROW_free_abandoned;
  return owner_sleeps(t, page) ? MX_ROW_free_sleeping : MX_ROW_free_partial;
}

// What other threads freed counts as used until the page's thread collects it.
static size_t live_in(const mx_page_t* page, size_t capacity) {
  const size_t used = mx_peek_uint32(&page->used);
  const bool is_owned = ((mx_load_relaxed(&page->remote) & MX_OWNED) != 0);
  const bool rests = ((mx_load_relaxed(&page->lend) & MX_PAGE_RESTS) != 0);
  const size_t freed = mx_remote_count(page) + (is_owned && !rests ? 1 : 0);
  return mx_min(used > freed ? used - freed : 0, capacity);
}

// What sizes may have been rounded up by in blocks of this one.
static size_t slack_of(size_t bin, size_t blocks) {
  return blocks * (mx_bin_size(bin) - mx_bin_size(bin - 1) - 1);
}

// A page of blocks in `size` bytes from `start`.
mx_unsynchronised static void take_page(taking_t* t, const mx_page_t* page, uint8_t* start,
                                        size_t size) {
  const size_t block_size = page->block_size, capacity = mx_peek_uint32(&page->capacity);
  const size_t front = (size_t)(page->start - start);
  const size_t carved = capacity * block_size, all = page->reserved * block_size;
  if (page->bin == 0 || page->bin >= MX_BIN_HUGE || front > size || carved > size - front) {
    add_all(t, MX_ROW_rounding, start, size);
    return;
  }
  const size_t blocks = live_in(page, capacity), live = blocks * block_size;
  const mx_present_t ahead = resident_of(t, start, front);
  const mx_present_t body = resident_of(t, page->start, carved);
  const size_t absent = carved - body.bytes, unused = carved - live;
  const size_t free_bytes = (unused > absent ? unused - absent : 0);
  const size_t live_bytes = body.bytes - free_bytes;
  const size_t pads = mx_min(blocks * MX_PAD, live_bytes);
  add_row(t, MX_ROW_rounding, ahead.bytes, &ahead);
  add_row(t, MX_ROW_rounding, pads, &body);
  add_row(t, MX_ROW_live, live_bytes - pads, &body);
  if (free_bytes > 0) add_row(t, row_of_free(t, page, blocks), free_bytes, &body);
  add_blocks_by(t, page, blocks, live_bytes - pads, free_bytes);
  t->report->slack_most += slack_of(page->bin, blocks);
  const size_t end = mx_min(mx_max(front + all, front + carved), size);
  add_all(t, MX_ROW_uncarved, page->start + carved, end - front - carved);
  add_all(t, MX_ROW_rounding, start + end, size - end);
}

// One that holds a single block, or is kept without one.
mx_unsynchronised static void take_huge(taking_t* t, const mx_page_t* page, uint8_t* start,
                                        size_t size) {
  const bool is_live = (mx_peek_uint32(&page->capacity) != 0);
  if (!is_live) {
    add_all(t, MX_ROW_huge_kept, start, size);
    return;
  }
  const size_t used = mx_min((size_t)(page->start - start) + page->block_size, size);
  const mx_present_t block = resident_of(t, start, used);
  add_row(t, MX_ROW_live_huge, block.bytes, &block);
  add_blocks_by(t, page, 1, block.bytes, 0);
  add_all(t, MX_ROW_rounding, start + used, size - used);
}

// ---- arenas ------------------------------------------------------------------------------------

static mx_report_row_t row_of_slice(const mx_arena_t* arena, size_t i) {
  if (mx_bits_test(arena->purgeable, i)) return MX_ROW_waiting;
  return mx_bits_test(arena->dirty, i) ? MX_ROW_kept : MX_ROW_fresh;
}

static bool is_nothing(const mx_arena_t* arena, size_t i) {
  return mx_bits_test(arena->free, i) && !mx_bits_test(arena->committed, i);
}

// A run of free slices of one kind from i on; answers where it ends.
static size_t take_free(taking_t* t, const mx_arena_t* arena, size_t i) {
  const mx_report_row_t row = row_of_slice(arena, i);
  size_t end = i + 1;
  while (end < arena->slices && mx_bits_test(arena->free, end) && !is_nothing(arena, end) &&
         row_of_slice(arena, end) == row) {
    end++;
  }
  add_all(t, row, mx_arena_slice(arena, i), (end - i) * MX_SLICE_SIZE);
  return end;
}

mx_unsynchronised static size_t take_used(taking_t* t, const mx_arena_t* arena, size_t i) {
  uint8_t* const start = mx_arena_slice(arena, i);
  const mx_page_t* const page = mx_arena_record(arena, i);
  if (mx_pagemap_get(start) != page) {  // somebody is about to make it a page, or to purge it
    add_all(t, MX_ROW_uncarved, start, MX_SLICE_SIZE);
    return i + 1;
  }
  const size_t count =
      mx_min(mx_max(mx_peek_uint32(&page->slice_count), 1), arena->slices - i);
  if (mx_page_is_huge(page)) take_huge(t, page, start, count * MX_SLICE_SIZE);
  else take_page(t, page, start, count * MX_SLICE_SIZE);
  return i + count;
}

static void take_arena(taking_t* t, const mx_arena_t* arena) {
  t->arena = NULL;
  add_all(t, MX_ROW_records, arena, arena->meta_size);
  t->arena = arena;
  for (size_t i = 0; i < arena->slices;) {
    const size_t word = i / MX_WORD_BITS;
    const bool is_free = (mx_load_relaxed(&arena->free[word]) == UINT64_MAX);
    if (i % MX_WORD_BITS == 0 && is_free && mx_load_relaxed(&arena->committed[word]) == 0) {
      i += MX_WORD_BITS;
    } else if (is_nothing(arena, i)) {
      i++;
    } else {
      i = (mx_bits_test(arena->free, i) ? take_free(t, arena, i) : take_used(t, arena, i));
    }
  }
  t->arena = NULL;
}

// In huge OS pages, which the resident size leaves out.
static bool is_huge_os(const taking_t* t, const mx_arena_t* arena) {
  const uintptr_t start = (uintptr_t)arena->start;
  return arena->is_pinned && start >= t->huge_from && start < t->huge_to;
}

static void report_subproc(taking_t* t, mx_subproc_t* subproc) {
  const size_t count = mx_load_acquire(&subproc->arenas.count);
  for (size_t i = 0; i < count; i++) {
    const mx_arena_t* const arena = mx_arena_at(&subproc->arenas, i);
    if (arena == NULL) continue;
    if (!is_huge_os(t, arena)) take_arena(t, arena);
    else add_all(t, MX_ROW_records, arena, arena->meta_size);
  }
  mx_lock_acquire(&subproc->lock);
  for (const mx_page_t* page = subproc->os_pages; page != NULL; page = page->next) {
    take_huge(t, page, mx_page_first(page), mx_page_size(page));
  }
  mx_lock_release(&subproc->lock);
}

// ---- the rest of the library -------------------------------------------------------------------

static void take_guarded(taking_t* t) {
  if (mx_load_acquire(&mx_guarded_ready) == 0 || mx_guarded_records == NULL) return;
  for (size_t i = 0; i < MX_GUARDED_RECORDS; i++) {
    const mx_guarded_t* const g = &mx_guarded_records[i];
    const mx_page_t* const page = mx_load_relaxed(&g->page);
    if (mx_load_acquire(&g->mapping) == NULL || page == NULL) continue;
    const bool is_live = (mx_load_acquire(&page->owner) == MX_OWNER_HUGE);
    const size_t used = mx_max(g->data_size, g->used_size);
    add_all(t, is_live ? MX_ROW_live_guarded : MX_ROW_guarded_freed, g->data, used);
  }
}

static void report_own(taking_t* t) {
  for (const mx_meta_chunk_t* c = mx_load_acquire(&mx_meta_chunks); c != NULL; c = c->next) {
    add_all(t, MX_ROW_records, c, c->size);
  }
  const void* samples;
  const size_t profiler = mx_prof_memory(&samples);
  if (profiler > 0) add_all(t, MX_ROW_profiler, samples, profiler);
  if (mx_pagemap_near_size != 0) {
    add_all(t, MX_ROW_page_map, mx_pagemap_table, mx_pagemap_near_size);
  }
  for (size_t i = 0; i < MX_FAR_TABLES; i++) {
    const mx_far_table_t* const table = mx_load_acquire(&mx_pagemap_far[i]);
    if (table == NULL) continue;
    add_all(t, MX_ROW_page_map, table->entries, MX_FAR_ENTRIES * sizeof(intptr_t));
  }
}

// ---- mappings ----------------------------------------------------------------------------------

// What is present where a range of the library's and a mapping overlap.
static size_t overlap(taking_t* t, const mx_mapping_t* m, const void* start, size_t size) {
  const uintptr_t from = mx_max(m->start, (uintptr_t)start);
  const uintptr_t to = mx_min(m->end, (uintptr_t)start + size);
  return from < to ? resident_of(t, (const void*)from, to - from).bytes : 0;
}

// The library's in a mapping that is counted as something else: memory that the program handed
// over, or that lies beside a stack.
static size_t ours_in(taking_t* t, const mx_mapping_t* m) {
  size_t bytes = 0;
  for (mx_subproc_t* s = NULL; (s = mx_subproc_step(s)) != NULL;) {
    const size_t count = mx_load_acquire(&s->arenas.count);
    for (size_t i = 0; i < count; i++) {
      const mx_arena_t* const arena = mx_arena_at(&s->arenas, i);
      if (arena == NULL) continue;
      bytes += overlap(t, m, arena->start, arena->slices * MX_SLICE_SIZE);
      bytes += overlap(t, m, arena, arena->meta_size);
    }
  }
  for (const mx_meta_chunk_t* c = mx_load_acquire(&mx_meta_chunks); c != NULL; c = c->next) {
    bytes += overlap(t, m, c, c->size);
  }
  return bytes;
}

// Whether a thread other than the main one has its stack there: a thread's own record of the system
// lies at the end of it.
static bool has_thread(const mx_mapping_t* m) {
  bool found = false;
  for (mx_subproc_t* s = NULL; (s = mx_subproc_step(s)) != NULL;) {
    mx_heap_t* const heap = &s->main_heap;
    mx_lock_acquire(&heap->lock);
    for (const mx_theap_t* h = heap->theaps; h != NULL && !found; h = h->links.next_in_heap) {
      found = (h->thread.number != mx_host_main_thread_number() &&
               h->tid - m->start < m->end - m->start);
    }
    mx_lock_release(&heap->lock);
  }
  return found;
}

// Of a mapping that begins in the library's own module, what lies there.
static size_t own_part(taking_t* t, const mx_mapping_t* m) {
  if (!mx_host_is_own_code((const void*)m->start)) return 0;
  uintptr_t in = m->start, out = m->end;
  while (out - in > mx_facts.os_page) {
    const uintptr_t middle = mx_align_down(in + (out - in) / 2, mx_facts.os_page);
    if (mx_host_is_own_code((const void*)middle)) in = middle;
    else out = middle;
  }
  if (out == m->end) return m->resident;
  return mx_min(resident_of(t, (const void*)m->start, out - m->start).bytes, m->resident);
}

static mx_report_row_t row_of_mapping(const mx_mapping_t* m) {
  switch (m->kind) {
    case MX_MAPPING_STACK: return MX_ROW_stacks;
    case MX_MAPPING_BREAK: return MX_ROW_brk;
    case MX_MAPPING_FILE: return MX_ROW_files;
    case MX_MAPPING_SHARED: return MX_ROW_shared;
    case MX_MAPPING_SYSTEM: return MX_ROW_system;
    default: return has_thread(m) ? MX_ROW_stacks : MX_ROW_anonymous;
  }
}

static void take_mapping(const mx_mapping_t* m, void* arg) {
  taking_t* const t = (taking_t*)arg;
  mx_report_t* const report = t->report;
  report->resident += m->resident;
  report->huge_os += m->huge;
  report->swapped += m->swapped;
  if (m->huge > 0) {
    if (t->huge_from == 0) t->huge_from = m->start;
    t->huge_to = m->end;
  }
  if (m->resident == 0) return;
  const size_t own = own_part(t, m);
  report->rows[MX_ROW_code].bytes += own;
  const size_t rest = m->resident - own;
  const mx_report_row_t row = row_of_mapping(m);
  if (row == MX_ROW_anonymous) {
    t->anonymous += rest;
    t->shared += m->shared;
    return;
  }
  const size_t ours = mx_min(ours_in(t, m), rest);
  t->apart += ours;
  if (ours > 0) t->shared += m->shared;
  report->rows[row].bytes += rest - ours;
}

// ---- the sum -----------------------------------------------------------------------------------

static void scale(size_t* value, double by) { *value = (size_t)((double)*value * by); }

// Takes `part` of what is shared off a row, and as much off what it is made of.
static void lessen(mx_report_t* report, mx_report_row_t row, double part) {
  mx_present_t* const sum = &report->rows[row];
  if (sum->shared == 0) return;
  const double by = 1.0 - part * (double)sum->shared / (double)sum->bytes;
  scale(&sum->bytes, by);
  if (row == MX_ROW_live_huge) scale(&report->bins[MX_BIN_HUGE].live, by);
  if (row != MX_ROW_live) return;
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) scale(&report->bins[bin].live, by);
}

static size_t live_of(const mx_report_t* report) {
  return report->rows[MX_ROW_live].bytes + report->rows[MX_ROW_live_huge].bytes;
}

static size_t sum_of_walk(const mx_report_t* report, size_t* shared) {
  size_t bytes = 0;
  *shared = 0;
  for (int row = 0; row < MX_ROW_code; row++) {
    bytes += report->rows[row].bytes;
    *shared += report->rows[row].shared;
  }
  return bytes;
}

static void balance_rows(taking_t* t) {
  mx_report_t* const report = t->report;
  size_t shared;
  sum_of_walk(report, &shared);
  if (shared > t->shared) {
    const double part = (double)(shared - t->shared) / (double)shared;
    const double live = (double)mx_max(live_of(report), 1);
    for (int row = 0; row < MX_ROW_code; row++) lessen(report, (mx_report_row_t)row, part);
    for (size_t i = 0; i <= report->heap_count && i <= MX_REPORT_HEAPS; i++) {
      scale(&report->heaps[i].live, (double)live_of(report) / live);
    }
  }
  const size_t ours = sum_of_walk(report, &shared);
  const size_t in_anonymous = ours - mx_min(t->apart, ours);
  size_t* const rest = &report->rows[MX_ROW_anonymous].bytes;
  *rest = (t->anonymous > in_anonymous ? t->anonymous - in_anonymous : 0);
}

void mx_report_take(mx_report_t* report) {
  mx_call_do_pending();
  taking_t t;
  memset(&t, 0, sizeof(t));
  memset(report, 0, sizeof(*report));
  t.report = report;
  report->is_exact = true;
  mx_residence_open(&t.residence);
  const bool has_mappings = mx_host_visit_mappings(true, &take_mapping, &t);
  for (mx_subproc_t* s = NULL; (s = mx_subproc_step(s)) != NULL;) report_subproc(&t, s);
  take_guarded(&t);
  report_own(&t);
  mx_residence_close(&t.residence);
  if (!has_mappings) {
    mx_process_info_t info;
    mx_os_process_info(&info);
    report->is_exact = false;
    report->resident = t.anonymous = info.current_rss;
    t.shared = SIZE_MAX;
  }
  balance_rows(&t);
  report->is_resident_known = (report->resident != 0);
  size_t shared;
  if (!report->is_resident_known) report->resident = sum_of_walk(report, &shared);
}
