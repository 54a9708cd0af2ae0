// SPDX-License-Identifier: MIT
// What a thread does every so many visits of the slow path, on a clock that moves when told: empty
// pages that it keeps go after a while, and those that are too many at once; current pages that
// nobody used between two rounds; memory behind carved blocks that nobody needed; blocks that others
// freed, when memory has grown; holes, a few pages at a time; and the program's deferred frees.
#include "../../audit.h"
#include "../stress.h"

#include "alloc/alloc.h"
#include "base/options.h"
#include "heap/huge_cache.h"
#include "heap/thread_life.h"
#include "heap/transfer.h"
#include "heap/trim.h"
#include "mimalloc.h"
#include "mock_os.h"
#include "os/os.h"
#include "page/holes.h"
#include "page/padding.h"

#define ROUND 32           // visits
#define BEAT 100
#define RETAIN_MSECS 250
#define PAGES_MOST 100

static mx_theap_t* theap;

static int64_t committed(void) { return mx_load_relaxed(&mx_process_counters.committed.current); }

// More, or less, than there is.
static int64_t pretended;
static void count_committed(int64_t more) {
  mx_count_add(&mx_process_counters.committed, more);
  pretended += more;
}

static void visit(uint32_t number) {
  theap->visits = number;
  mx_theap_housekeeping(theap, 1);
}

static void look(void) { check(audit(&mx_subproc_main) == 0); }

// ---- pages of a size ---------------------------------------------------------------------------

// Full pages of blocks of one size, and one block more, whose page is current.
static void* blocks[40000];
static mx_page_t* pages[PAGES_MOST];
static size_t count, size;

static void fill_pages(size_t block_size, size_t page_count) {
  size_t n = 0;
  size = block_size;
  for (count = 0; n <= page_count; count++) {
    void* const p = mi_malloc(size);
    check(p != NULL && count < sizeof(blocks) / sizeof(blocks[0]));
    memset(p, 1, size);
    blocks[count] = p;
    mx_page_t* const page = mx_pagemap_get(p);
    if (n == 0 || page != pages[n - 1]) pages[n++] = page;
    if (n > page_count) break;
  }
  count++;
}

// All blocks of a page but so many of the first ones.
static void empty_but(const mx_page_t* page, size_t left) {
  for (size_t i = 0; i < count; i++) {
    if (blocks[i] == NULL || mx_pagemap_get(blocks[i]) != page) continue;
    if (left > 0) {
      left--;
      continue;
    }
    mi_free(blocks[i]);
    blocks[i] = NULL;
  }
}

static void drop_all(void) {
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  count = 0;
  mi_collect(true);
}

static bool is_page(const mx_page_t* page, const uint8_t* start) {
  return mx_pagemap_get(start) == page;
}

// ---- empty pages -------------------------------------------------------------------------------

static void test_retained(void) {
  // One page of them may stay full; the others are nobody's, and come back as they are freed into.
  fill_pages(2000, 6);
  look();
  uint8_t* starts[6];
  for (int i = 0; i < 6; i++) starts[i] = pages[i]->start;
  const int64_t retired = mx_load_relaxed(&theap->counted.retires);
  empty_but(pages[0], 0);
  check(theap->retained.slices == 1 && is_page(pages[0], starts[0]));
  check(mx_load_relaxed(&theap->counted.retires) == retired + 1);
  mock_sleep(100);
  empty_but(pages[1], 0);
  look();
  check(theap->retained.slices == 2);
  // There are so few slices in use that more stay for a moment only: the oldest goes.
  empty_but(pages[2], 0);
  check(theap->retained.slices == 3 && is_page(pages[0], starts[0]));
  visit(ROUND);
  check(theap->retained.slices == 2 && !is_page(pages[0], starts[0]));
  check(is_page(pages[1], starts[1]) && is_page(pages[2], starts[2]));
  mock_sleep(RETAIN_MSECS - 1);
  visit(ROUND);
  check(theap->retained.slices == 2);
  mock_sleep(1);
  visit(ROUND + 1);
  check(theap->retained.slices == 2);  // no round
  visit(2 * ROUND);
  check(theap->retained.slices == 0 && !is_page(pages[1], starts[1]) && !is_page(pages[2], starts[2]));
  look();
  // A kept page that is used again is none; it is no longer looked at.
  empty_but(pages[3], 0);
  check(theap->retained.slices == 1);
  for (size_t n = 0; pages[3]->retained_slot != 0 && n < 200; n++) blocks[n] = mi_malloc(size);
  check(theap->retained.slices == 0);
  mock_sleep(2 * RETAIN_MSECS);
  visit(ROUND);
  check(is_page(pages[3], starts[3]));
  look();
  // So it is of all that a thread gives back.
  empty_but(pages[4], 0);
  empty_but(pages[5], 0);
  const uint32_t kept = theap->retained.slices;
  check(kept > 0);
  mi_collect(false);  // their time is not over
  check(theap->retained.slices == kept);
  look();
  mi_collect(true);
  check(theap->retained.slices == 0);
  drop_all();
  look();
}

// In proportion to what is in use, and no page that is larger than that.
static void test_retained_share(void) {
  void* const much = mi_malloc(160 * MX_SLICE_SIZE);  // of which 10 pages may be kept
  fill_pages(2000, 30);
  for (int i = 0; i < 30; i++) empty_but(pages[i], 0);
  mock_sleep(2);  // more is kept for a moment
  visit(ROUND);
  const size_t in_use = (size_t)mx_load_relaxed(&mx_subproc_main.arenas.in_use);
  check(theap->retained.slices >= 1 + in_use / 16 && theap->retained.slices <= 3 + in_use / 16);
  check(MX_LARGE_APART || in_use >= 160);
  look();
  drop_all();
  // All threads together keep no more than one would, of larger pages, too.
  for (int others = 0; others <= 7; others += 7) {
    mx_count_add(&mx_subproc_main.main_heap.counters.threads, others);
    fill_pages(9000, 2);
    const uint8_t* const first = pages[0]->start;
    const size_t slices = pages[0]->slice_count;
    const size_t used = (size_t)mx_load_relaxed(&mx_subproc_main.arenas.in_use);
    const size_t most = 2 + used / (16 * (1 + (size_t)others));
    empty_but(pages[0], 0);
    check(is_page(pages[0], first) == (slices <= most));
    mx_count_add(&mx_subproc_main.main_heap.counters.threads, -others);
    look();
    drop_all();
  }
  mi_free(much);
  mi_collect(true);
  mx_huge_cache_flush(true);
  fill_pages(20000, 2);
  const uint8_t* const start = pages[0]->start;
  if (pages[0]->slice_count > 2) {
    empty_but(pages[0], 0);
    check(!is_page(pages[0], start) && theap->retained.slices == 0);
  }
  look();
  drop_all();
}

// The ring that they are in goes round: the oldest gives its place up, and goes first afterwards.
static void test_ring(void) {
  enum { EMPTIED = 90 };
  const uint8_t* starts[EMPTIED];
  void* const much = mi_malloc(1200 * MX_SLICE_SIZE);
  fill_pages(4000, EMPTIED);
  if (mx_load_relaxed(&mx_subproc_main.arenas.in_use) < 1200) {
    mi_free(much);
    drop_all();
    return;
  }
  for (int i = 0; i < EMPTIED; i++) {
    starts[i] = pages[i]->start;
    mock_sleep(1);
    empty_but(pages[i], 0);
    if (i % 10 == 0) look();
  }
  check(theap->retained.slices == MX_RETAINED_MAX);
  for (int i = 0; i < EMPTIED; i++) {
    check(is_page(pages[i], starts[i]) == (i >= EMPTIED - MX_RETAINED_MAX));
  }
  // One millisecond lies between them, so that as many go as many pass.
  mock_sleep(RETAIN_MSECS - MX_RETAINED_MAX + 10);
  visit(ROUND);
  check(theap->retained.slices == MX_RETAINED_MAX - 10);
  for (int i = EMPTIED - MX_RETAINED_MAX; i < EMPTIED; i++) {
    check(is_page(pages[i], starts[i]) == (i >= EMPTIED - MX_RETAINED_MAX + 10));
  }
  mi_free(much);
  look();
  drop_all();
}

// Of a size that the thread has no current page of, nothing is kept.
static void test_not_retained(void) {
  fill_pages(3000, 2);
  const uint8_t* const start = pages[0]->start;
  empty_but(pages[2], 0);  // the current one, of which little is carved
  visit(ROUND);
  for (int i = 0; i < 2; i++) {
    mock_sleep(RETAIN_MSECS / 2);
    visit(ROUND);
  }
  check(theap->bins.current[mx_bin_of(size + MX_PAD)] == &mx_page_none);
  empty_but(pages[0], 0);
  check(!is_page(pages[0], start) && theap->retained.slices == 0);
  look();
  drop_all();
}

// ---- current pages -----------------------------------------------------------------------------

static void test_idle(void) {
  const size_t bin = mx_bin_of(5000 + MX_PAD);
  void* p = mi_malloc(5000);
  const mx_page_t* const page = theap->bins.current[bin];
  check(page != &mx_page_none && page == mx_pagemap_get(p));
  for (int i = 0; i < 4; i++) visit(ROUND);
  check(theap->bins.current[bin] == page);  // in use
  mi_free(p);
  mi_collect(false);
  p = mi_malloc(5000);
  mi_free(p);
  const mx_page_t* const now = theap->bins.current[bin];
  if (now == &mx_page_none) return;  // the collection took it
  if (now->used != 1) return;        // or the block waits
  visit(ROUND - 1);
  visit(ROUND);
  check(theap->bins.current[bin] == now);
  p = mi_malloc(5000);  // not idle after all
  visit(ROUND);
  mi_free(p);
  for (int i = 0; i < 4; i++) {
    visit(ROUND);
    check(theap->bins.current[bin] == now);
    look();
    mi_free(mi_malloc(5000));  // nor now, though a round finds it empty each time
  }
  visit(ROUND);
  check(theap->bins.current[bin] == now);
  look();
  visit(ROUND);
  check(theap->bins.current[bin] == &mx_page_none);
  look();
}

// ---- slack -------------------------------------------------------------------------------------

// A current page that was made of used memory, of which so many blocks are used. What was freed last
// is hardly used, and goes to another.
static mx_page_t* page_of_used_memory(size_t used) {
  static void* other;
  mi_free(other);
  mi_collect(true);
  fill_pages(900, 12);
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  mock_sleep(2);
  mi_collect(false);  // what goes waits
  check(mx_load_relaxed(&mx_subproc_main.arenas.purgeable) >= 8);
  other = mi_malloc(2500);
  size = 1500;
  for (count = 0; count < used; count++) {
    blocks[count] = mi_malloc(size);
    memset(blocks[count], 7, size);
  }
  return mx_pagemap_get(blocks[used - 1]);
}

static void test_slack(size_t used, bool goes) {
  mx_page_t* const page = page_of_used_memory(used);
  const size_t carved = page->capacity;
  const int64_t before = committed();
  const size_t all = page->slice_count * mx_arena_bits_per_slice();
  const size_t at = page->slice_index * mx_arena_bits_per_slice();
  if (MX_SCATTER) {
    drop_all();
    return;
  }
  check(mx_bits_count(page->arena->present, at, all) == all);
  visit(ROUND);
  check(committed() == before);
  visit(ROUND);
  const int64_t now = committed();
  check(goes ? now <= before - (int64_t)(16 * MX_KIB) : now == before);
  // Nothing that was carved.
  if (goes) check(now >= before - (int64_t)(all * mx_facts.os_page - carved * size) - 4096);
  for (size_t i = 0; i < used; i++) check(((unsigned char*)blocks[i])[size - 1] == 7);
  visit(ROUND);
  check(committed() == now);
  look();
  // The page goes on.
  for (; count < 30; count++) blocks[count] = mi_calloc(1, size);
  for (size_t i = used; i < count; i++) check(((unsigned char*)blocks[i])[size / 2] == 0);
  look();
  drop_all();
}

static void test_all_slack(void) {
  test_slack(2, true);
  test_slack(30, false);  // more than half of it is carved
  mi_option_set(mi_option_purge_holes, 0);
  test_slack(2, false);
  mi_option_set(mi_option_purge_holes, 1);
}

// ---- beats -------------------------------------------------------------------------------------

static int beats;
static unsigned long long last_beat;
static bool was_forced;

static void on_beat(bool force, unsigned long long beat, void* arg) {
  check(arg == &beats && beat > last_beat);
  last_beat = beat;
  was_forced = force;
  beats++;
  mx_theap_deferred_free(theap, true);  // not while it is at it
  mi_free(mi_malloc(100));
}

static void test_beats(void) {
  mi_register_deferred_free(&on_beat, &beats);
  beats = 0;
  for (uint32_t i = 1; i <= 3 * BEAT; i++) visit(i);
  check(beats == 3 && !was_forced);
  mi_collect(true);
  check(beats == 4 && was_forced);
  mi_register_deferred_free(NULL, NULL);
  visit(BEAT);
  check(beats == 4);
}

// ---- what others freed -------------------------------------------------------------------------

static void* frees_some(void* arg) {
  const mx_page_t* const page = (const mx_page_t*)arg;
  empty_but(page, 3);
  return NULL;
}

static void free_elsewhere(mx_page_t* page) {
  pthread_t thread;
  check(pthread_create(&thread, NULL, &frees_some, page) == 0);
  pthread_join(thread, NULL);
}

// They are found when what is committed has grown by a sixteenth, and 4 MiB, since the least.
static void test_growth(void) {
  const long usual = mi_option_get(mi_option_generic_collect);
  mi_option_set(mi_option_generic_collect, 0);
  mi_collect(true);
  fill_pages(2600, 1);
  mx_page_t* const page = pages[0];
  visit(ROUND);
  visit(2 * ROUND);
  theap->collecting.least = (size_t)committed();
  const int64_t least = committed(), more = least / 16 + 4 * (int64_t)MX_MIB;
  free_elsewhere(page);
  check(!mx_remote_is_empty(page));
  count_committed(least - committed() + more - 1);
  visit(ROUND);
  check(!mx_remote_is_empty(page));
  count_committed(1);
  visit(ROUND + 1);
  check(!mx_remote_is_empty(page));
  visit(2 * ROUND);
  check(mx_remote_is_empty(page) && page->used == 3);
  check(theap->collecting.least == (size_t)(least + more));
  count_committed(-pretended);
  visit(ROUND);
  check(theap->collecting.least == (size_t)committed());  // the least since then
  mi_option_set(mi_option_generic_collect, usual);
  drop_all();
  look();
}

// ---- holes -------------------------------------------------------------------------------------

#define TRIM_PAGES 2
#define TRIM_LEAST ((int64_t)(8 * MX_MIB))

static size_t with_holes(size_t page_count) {
  size_t n = 0;
  for (size_t i = 0; i < page_count; i++) n += mx_page_has_holes(pages[i]);
  return n;
}

// Pages at rest that are mostly free.
static void sparse_pages(size_t page_count) {
  mi_collect(true);
  fill_pages(700, page_count);
  for (size_t i = 0; i < page_count; i++) empty_but(pages[i], 2);
  mi_collect(false);
  check(with_holes(page_count) == 0);
}

static int64_t trim_bound(void) {
  const int64_t from = (int64_t)mx_load_relaxed(&mx_subproc_main.trim.from);
  return from + mx_max(from / 8, TRIM_LEAST);
}

static void test_trim(void) {
  mx_subproc_t* const s = &mx_subproc_main;
  sparse_pages(20);
  mx_holes_take_filled();
  s->trim.refaults = s->trim.arena = s->trim.slice = 0;
  const int64_t before = committed();
  mx_store_relaxed(&s->trim.from, SIZE_MAX / 16);
  mx_subproc_trim(s);
  check(mx_load_relaxed(&s->trim.from) == (size_t)before && with_holes(20) == 0);
  count_committed(trim_bound() - before - 1);
  mx_subproc_trim(s);
  check(with_holes(20) == 0);
  count_committed(1);
  mi_option_set(mi_option_purge_holes, 0);
  mx_subproc_trim(s);
  mi_option_set(mi_option_purge_holes, 1);
  mi_option_set(mi_option_purge_delay, -1);
  mx_subproc_trim(s);
  check(with_holes(20) == 0);
  mi_option_set(mi_option_purge_delay, 0);  // at once, which is not never
  mx_subproc_trim(s);
  mi_option_set(mi_option_purge_delay, 100000);
  check(with_holes(20) == TRIM_PAGES && mx_load_relaxed(&s->trim.busy) == 0);
  // The walk ends, and the next one begins when that much more is committed.
  int steps = 1;
  for (bool is_over = false; !is_over && steps < 100; steps++) {
    const int64_t fake = mx_max(trim_bound() - committed(), (int64_t)0);
    count_committed(fake);
    const int64_t seen = committed();
    mx_subproc_trim(s);
    is_over = (s->trim.arena + s->trim.slice == 0);
    if (is_over) check(mx_load_relaxed(&s->trim.from) == (size_t)seen);
  }
  check(steps == 20 / TRIM_PAGES + 1 && with_holes(20) == 20);
  count_committed(-pretended);
  look();
  // What is filled again soon lets twice as much wait, for ten seconds.
  for (size_t i = 0; i < count; i++) {
    if (blocks[i] == NULL) blocks[i] = mi_malloc(size);
  }
  mx_store_relaxed(&s->trim.from, (size_t)committed());
  const int64_t bound = trim_bound();
  count_committed(bound - committed());
  mx_subproc_trim(s);
  const size_t refaults = s->trim.refaults;
  check(refaults > 0 && refaults % (2 * mx_facts.os_page) == 0 && s->trim.slice == 0);
  count_committed((int64_t)refaults - 1);
  mx_subproc_trim(s);
  check(s->trim.slice == 0 && s->trim.arena == 0 && s->trim.refaults == refaults);
  mock_sleep(9999);
  mx_subproc_trim(s);
  check(s->trim.refaults == refaults);
  mock_sleep(1);
  mx_subproc_trim(s);
  check(s->trim.refaults == refaults / 2);
  s->trim.refaults = 0;
  count_committed(-pretended);
  look();
  drop_all();
}

// Of pages that look as they did at the walk before, and at rest.
static void test_idle_pages(void) {
  sparse_pages(12);
  bool has_changed = false;
  mx_subproc_make_holes(&mx_subproc_main, true, &has_changed);
  check(has_changed && with_holes(12) == 0);
  for (size_t i = 0; i < count; i++) {
    if (blocks[i] == NULL || mx_pagemap_get(blocks[i]) != pages[3]) continue;
    mi_free(blocks[i]);  // one that is in use
    blocks[i] = NULL;
    break;
  }
  has_changed = false;
  check(mx_subproc_make_holes(&mx_subproc_main, true, &has_changed) > 0 && has_changed);
  check(with_holes(12) == 11 && !mx_page_has_holes(pages[3]));
  look();
  // What a thread allocates from is not at rest: it says nothing.
  mx_subproc_make_holes(&mx_subproc_main, false, &has_changed);
  check(with_holes(12) == 12);
  has_changed = false;
  mx_subproc_make_holes(&mx_subproc_main, true, &has_changed);
  for (int i = 0; i < 5; i++) blocks[count++] = mi_malloc(size + 3000);
  has_changed = false;
  check(mx_subproc_make_holes(&mx_subproc_main, true, &has_changed) == 0 && !has_changed);
  look();
  drop_all();
}

// ---- huge pages that are kept ------------------------------------------------------------------

static void test_huge(void) {
  mi_option_set(mi_option_purge_delay, 1000);
  mi_collect(true);
  mx_huge_cache_flush(true);
  const intptr_t before = mx_load_relaxed(&mx_subproc_main.arenas.in_use);
  void* const p = mi_malloc(20 * MX_SLICE_SIZE);
  check(mx_load_relaxed(&mx_subproc_main.arenas.in_use) > before);
  mi_free(p);
  const bool is_kept = (mx_load_relaxed(&mx_subproc_main.arenas.in_use) > before);
  check(is_kept == !MX_CHECKED_FREE);
  mock_sleep(999);
  mx_huge_cache_flush(false);
  check((mx_load_relaxed(&mx_subproc_main.arenas.in_use) > before) == is_kept);
  mock_sleep(1);
  mx_huge_cache_flush(false);
  check(mx_load_relaxed(&mx_subproc_main.arenas.in_use) == before);
  mi_option_set(mi_option_purge_delay, 100000);
}

// Blocks that are too large for arenas have mappings of their own, and are counted as those are.
static void use_own_mappings(void) {
  void* p[3];
  const int64_t before = committed();
  for (size_t i = 0; i < 3; i++) p[i] = mi_malloc((3 + i) * MX_MIB);
  check(MX_LARGE_APART || mx_subproc_main.os_pages != NULL);
  check(committed() >= before + 12 * (int64_t)MX_MIB);
  look();
  p[1] = mi_realloc(p[1], 9 * MX_MIB);
  look();
  p[2] = mi_realloc(p[2], 1000);
  p[0] = mi_realloc(p[0], 3 * MX_MIB + 40000);
  look();
  for (size_t i = 0; i < 3; i++) mi_free(p[i]);
  mi_collect(true);
  mx_huge_cache_flush(true);
  check(mx_subproc_main.os_pages == NULL);
  look();
}

static void test_own_mappings(void) {
  const long usual = mi_option_get(mi_option_arena_max_object_size);
  mi_option_set(mi_option_arena_max_object_size, 2 * 1024);
  use_own_mappings();  // from then on there are tables and records for them
  const int64_t reserved = mx_load_relaxed(&mx_process_counters.reserved.current);
  const int64_t before = committed();
  use_own_mappings();
  check(mx_load_relaxed(&mx_process_counters.reserved.current) == reserved);
  check(committed() == before);
  mi_option_set(mi_option_arena_max_object_size, usual);
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  mi_option_set(mi_option_max_warnings, 0);
  mi_option_set(mi_option_purge_delay, 100000);
  mi_option_set(mi_option_theap_retain, 0);
  mi_option_set(mi_option_generic_collect, 0);
  mx_transfer_most = 0;
  mi_free(mi_malloc(100));
  if (mx_os_is_scarce()) return 77;
  theap = mx_thread_theap();
  test_retained();
  test_retained_share();
  test_ring();
  test_not_retained();
  test_idle();
  test_all_slack();
  test_beats();
  test_growth();
  if (MX_HOLES) test_trim();
  if (MX_HOLES) test_idle_pages();
  if (!MX_LARGE_APART) test_huge();
  test_own_mappings();
  printf("ok\n");
  return 0;
}
