// SPDX-License-Identifier: MIT
// The scenarios of holes: OS pages of free blocks are given back by one thread while others
// free into their page, take it into use, abandon and release it (see src/page/holes.h).
//
// A block is two OS pages. What the explored OS takes back reads as zero, so a live block that is
// lost with a hole has no mark any more.
#include "world.h"

#include "../../src/page/freelist.h"
#include "../../src/page/holes.h"
#include "../../src/heap/heap_end.h"
#include "../../src/heap/heap_record.h"
#include "../../src/heap/thread_life.h"
#include "../../src/heap/trim.h"

#define BLOCKS 24

static void* block[BLOCKS];
static int owner[BLOCKS];
static mx_heap_t* heap;

static void alloc_at(size_t i) {
  owner[i] = ex_self();
  block[i] = world_alloc(WORLD_BLOCK);
}

static void free_at(size_t i) {
  world_free(block[i], owner[i]);
  block[i] = NULL;
}

// Thread 1 fills a page of 8 blocks and a bit of the next. The first page, with the given number of
// its blocks free, rests.
static void page_at_rest(size_t total, size_t free_ones) {
  world_start(WORLD_SLICES);
  ex_become(1);
  for (size_t i = 0; i < total; i++) {
    alloc_at(i);
    owner[i] = 1;
  }
  for (size_t i = 0; i < free_ones; i++) free_at(i);
  ex_become(0);
}

static void makes_holes(void) {
  bool has_changed = false;
  mx_subproc_make_holes(&mx_subproc_main, false, &has_changed);
}

static void rest_setup(void) { page_at_rest(WORLD_PAGE_BLOCKS + 1, 3); }
static void frees_3(void) { free_at(3); }
static void frees_4(void) { free_at(4); }
static void frees_3_4(void) {
  free_at(3);
  free_at(4);
}

// Every carved block is on its page's list, in a hole, or counts as used: none was lost.
static void check_whole(void) {
  size_t at = 0;
  for (mx_page_t* page; (page = mx_page_next_in(world_arena(), &at)) != NULL;) {
    if (mx_load_relaxed(&mx_page_heap(page)->id) == MX_HEAP_GONE) continue;  // kept for the next one
    size_t found = mx_holes_count(page) + page->used;
    for (const mx_block_t* b = page->free; b != NULL; b = mx_block_next(page, b)) found++;
    const bool is_current = ((mx_load_relaxed(&page->lend) & MX_PAGE_RESTS) == 0);
    if (found - is_current != page->capacity) {
      ex_fail("of %u blocks of page %u %zu are left", page->capacity, page->slice_index,
              found - is_current);
    }
  }
}
static void audit(void) {
  check_whole();
  world_audit(block, owner, BLOCKS);
}

// Live blocks are linked as free ones are: a list that is read in the middle of a free, before the
// freed block has its link, looks whole, but leads to blocks in use.
static void links_setup(void) {
  rest_setup();
  void** const a = (void**)block[3];
  void** const b = (void**)block[5];
  void** const c = (void**)block[6];
  a[0] = b;
  b[0] = c;
  c[0] = NULL;
}
static void frees_linked(void) {
  mx_free(block[3]);
  block[3] = NULL;
}
static void links_audit(void) {
  void** const b = (void**)block[5];
  void** const c = (void**)block[6];
  ex_check(b[0] == c && b[1] == c[1] && c[1] != NULL);
  b[0] = b[1];
  c[0] = c[1];
  audit();
}

// Both pages are full, so what is allocated comes from the one at rest, or from a third.
static void hold_setup(void) { page_at_rest(2 * WORLD_PAGE_BLOCKS, 3); }
static void takes_it_into_use(void) {
  free_at(3);
  alloc_at(16);
  alloc_at(17);
}

// All but one of its blocks are free.
static void last_setup(void) { page_at_rest(WORLD_PAGE_BLOCKS + 1, WORLD_PAGE_BLOCKS - 1); }
static void frees_last_and_collects(void) {
  free_at(7);
  mx_thread_collect(true);
}
static void frees_last_and_allocs(void) {
  free_at(7);
  for (size_t i = 9; i < 9 + 8; i++) alloc_at(i);
}
static void frees_last(void) { free_at(7); }

// Another thread has freed all blocks of a full page; the owner takes them in and uses them.
static void collect_setup(void) {
  page_at_rest(2 * WORLD_PAGE_BLOCKS, 0);
  ex_become(3);
  for (size_t i = 0; i < WORLD_PAGE_BLOCKS; i++) free_at(i);
  ex_become(0);
}
static void collects_and_allocs(void) {
  for (size_t i = 16; i < 16 + 8; i++) alloc_at(i);
}

// As many blocks are on the owner's list as others freed: a list that leads to the latter alone, with
// `used` as it was before, would add up, too.
static void as_many_setup(void) {
  page_at_rest(WORLD_PAGE_BLOCKS + 1, 2);
  ex_become(3);
  free_at(2);
  free_at(3);
  ex_become(0);
}
static void collects(void) { mx_thread_collect(true); }

static void abandons(void) { world_end_thread(); }
static void reclaims(void) { alloc_at(20); }
static void abandoned_setup(void) {
  last_setup();
  ex_become(1);
  world_end_thread();
  ex_become(0);
}

// The heap goes while its page is lent: nobody but the borrower may release it then.
static void heap_setup(void) {
  world_start(WORLD_SLICES);
  ex_become(1);
  heap = mx_heap_create(&mx_subproc_main, NULL, 0, true);
  ex_check(heap != NULL);
  ex_quiet(&heap->counters, sizeof(heap->counters));
  for (size_t i = 0; i < WORLD_PAGE_BLOCKS + 1; i++) {
    block[i] = mx_alloc_in(mx_thread_theap_of(heap, true), WORLD_BLOCK);
    ex_check(block[i] != NULL);
  }
  for (size_t i = 0; i < WORLD_PAGE_BLOCKS - 1; i++) mx_free(block[i]);
  ex_become(0);
}
static void empties_and_destroys(void) {
  mx_free(block[7]);
  mx_thread_collect(true);
  mx_heap_destroy(heap);
}
static void empties_and_deletes(void) {
  mx_free(block[7]);
  mx_thread_collect(true);
  mx_free(block[8]);
  mx_heap_delete(heap);
}
static void heap_audit(void) {
  for (size_t i = 0; i < BLOCKS; i++) block[i] = NULL;
  audit();
}

// A thread that forbids it finds no page on its way: as fork must, whose child has no borrower.
static void forbids(void) {
  mx_holes_forbid();
  for (size_t i = 0; i < WORLD_SLICES; i++) {
    mx_page_t* const page = mx_arena_record(world_arena(), i);
    ex_check((mx_load_relaxed(&page->lend) & (MX_PAGE_LENT | MX_PAGE_GONE)) == 0);
  }
  mx_holes_allow();
}

// Thread 1 keeps its first page, which is empty, and beyond the share as it seems.
static void kept_setup(size_t total) {
  page_at_rest(total, WORLD_PAGE_BLOCKS);
  ex_become(1);
  ex_check(mx_tls_theap->retained.slices == 1);
  mx_tls_theap->retained.share = 0;
  ex_become(0);
}
static void kept_beside_current_setup(void) { kept_setup(WORLD_PAGE_BLOCKS + 1); }
static void kept_beside_full_setup(void) { kept_setup(2 * WORLD_PAGE_BLOCKS); }
static void begins_anew(void) {
  for (size_t i = 16; i < 16 + 3; i++) alloc_at(i);
  free_at(17);
}
// The kept page becomes one of another size, if it is not lent, and rests again.
static void converts(void) {
  for (size_t i = 0; i < 18; i++) {
    if (i == WORLD_PAGE_BLOCKS) continue;
    owner[i] = ex_self();
    block[i] = world_alloc(WORLD_BLOCK / 2);
  }
  for (size_t i = 0; i < 6; i++) free_at(i);
}

// ---- pages that are mostly free, when memory grows -----------------------------------------------

// Blocks of one OS page, 16 in a page of which two are live: so much is free that a walk over all
// pages gives it back (see src/heap/trim.c), which is due since much has been committed.
#define SMALL ((size_t)4096)
#define SMALL_BLOCKS 16
#define OTHER ((size_t)2048)

static void small_at(size_t i) {
  owner[i] = ex_self();
  block[i] = world_alloc(SMALL);
}
static void much_is_committed(void) {
  mx_store_relaxed(&mx_process_counters.committed.current, (int64_t)(64 * MX_MIB));
}
static void trim_setup(void) {
  world_start(WORLD_SLICES);
  ex_become(1);
  for (size_t i = 0; i < SMALL_BLOCKS + 1; i++) {
    small_at(i);
    owner[i] = 1;
  }
  for (size_t i = 0; i < SMALL_BLOCKS - 2; i++) free_at(i);
  ex_become(0);
  much_is_committed();
}
// All that a page at rest says was written during the run.
static void trim_fresh_setup(void) {
  world_start(WORLD_SLICES);
  ex_become(1);  // has what a thread needs
  mx_free(world_alloc(OTHER));
  ex_become(0);
  much_is_committed();
}
static void makes_such_a_page(void) {
  for (size_t i = 0; i < SMALL_BLOCKS + 1; i++) small_at(i);
  for (size_t i = 0; i < SMALL_BLOCKS - 2; i++) free_at(i);
}
static void trim_abandoned_setup(void) {
  trim_setup();
  ex_become(1);
  world_end_thread();
  ex_become(0);
}
static void trims(void) { mx_subproc_trim(&mx_subproc_main); }
static void frees_14(void) { free_at(14); }
static void frees_15(void) { free_at(15); }
static void frees_14_15(void) {
  free_at(14);
  free_at(15);
}
// A page for another size is made, and with it the walk, which finds this thread's own page.
static void grows(void) {
  owner[20] = ex_self();
  block[20] = world_alloc(OTHER);
}
static void grows_and_uses(void) {
  grows();
  small_at(21);
  small_at(22);
}
static void grows_too(void) {
  owner[23] = ex_self();
  block[23] = world_alloc(OTHER);
}
static void reclaims_small(void) {
  small_at(18);
  small_at(19);
}
static void small_into_use(void) {
  free_at(14);
  mx_thread_collect(true);
  for (size_t i = 0; i < 4; i++) small_at(i);
}

const ex_scenario_t ex_holes_scenarios[] = {
    {"holes", rest_setup, {frees_3_4, makes_holes, NULL}, audit, 3, 2},
    {"holes-remote", rest_setup, {frees_3, makes_holes, frees_4}, audit, 2, 1},
    {"holes-links", links_setup, {frees_linked, makes_holes, NULL}, links_audit, 3, 1},
    {"holes-hold", hold_setup, {takes_it_into_use, makes_holes, NULL}, audit, 3, 1},
    {"holes-last", last_setup, {frees_last_and_collects, makes_holes, NULL}, audit, 3, 1},
    {"holes-reuse", last_setup, {frees_last_and_allocs, makes_holes, NULL}, audit, 3, 1},
    {"holes-collect", collect_setup, {collects_and_allocs, makes_holes, NULL}, audit, 3, 1},
    {"holes-as-many", as_many_setup, {collects, makes_holes, NULL}, audit, 3, 1},
    {"holes-abandon", rest_setup, {abandons, makes_holes, reclaims}, audit, 2, 1},
    {"holes-abandoned", abandoned_setup, {frees_last, makes_holes, reclaims}, audit, 2, 1},
    {"holes-destroy", heap_setup, {empties_and_destroys, makes_holes, NULL}, heap_audit, 3, 1},
    {"holes-delete", heap_setup, {empties_and_deletes, makes_holes, NULL}, heap_audit, 3, 1},
    {"holes-forbid", last_setup, {frees_last_and_collects, makes_holes, forbids}, audit, 2, 1},
    {"holes-anew", kept_beside_full_setup, {begins_anew, makes_holes, NULL}, audit, 3, 1},
    {"holes-convert", kept_beside_current_setup, {converts, makes_holes, NULL}, audit, 3, 1},
    {"holes-convert-forbid", kept_beside_current_setup, {converts, makes_holes, forbids}, audit, 2, 1},
    {"trim", trim_setup, {frees_14, trims, frees_15}, audit, 2, 1},
    {"trim-use", trim_setup, {small_into_use, trims, frees_15}, audit, 2, 1},
    {"trim-own", trim_setup, {grows_and_uses, frees_14_15, NULL}, audit, 3, 1},
    {"trim-two", trim_setup, {grows_and_uses, grows_too, frees_14}, audit, 2, 1},
    {"trim-end", trim_setup, {abandons, trims, reclaims_small}, audit, 2, 1},
    {"trim-adopt", trim_abandoned_setup, {reclaims_small, trims, frees_14_15}, audit, 2, 1},
    {"trim-fresh", trim_fresh_setup, {makes_such_a_page, trims, NULL}, audit, 2, 1},
    {"trim-forbid", trim_setup, {frees_14_15, trims, forbids}, audit, 2, 1},
    {NULL, NULL, {NULL, NULL, NULL}, NULL, 0, 0},
};
