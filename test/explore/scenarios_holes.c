// SPDX-License-Identifier: MIT
// Owns the scenarios of holes: OS pages of free blocks are given back by one thread while others
// free into their page, take it into use, abandon and release it (see src/page/holes.h).
//
// A block is two OS pages. What the explored OS takes back reads as zero, so a live block that is
// lost with a hole has no mark any more.
#include "world.h"

#include "../../src/page/holes.h"

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
static void audit(void) { world_audit(block, owner, BLOCKS); }

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

// Who forbids it finds no page on its way: as fork must, whose child has no borrower.
static void forbids(void) {
  mx_holes_forbid();
  for (size_t i = 0; i < WORLD_SLICES; i++) {
    mx_page_t* const page = mx_arena_record(world_arena(), i);
    ex_check((mx_load_relaxed(&page->lend) & (MX_PAGE_LENT | MX_PAGE_GONE)) == 0);
  }
  mx_holes_allow();
}

const ex_scenario_t ex_holes_scenarios[] = {
    {"holes", rest_setup, {frees_3_4, makes_holes, NULL}, audit, 3, 2},
    {"holes-remote", rest_setup, {frees_3, makes_holes, frees_4}, audit, 2, 1},
    {"holes-links", links_setup, {frees_linked, makes_holes, NULL}, links_audit, 3, 1},
    {"holes-hold", hold_setup, {takes_it_into_use, makes_holes, NULL}, audit, 3, 1},
    {"holes-last", last_setup, {frees_last_and_collects, makes_holes, NULL}, audit, 3, 1},
    {"holes-reuse", last_setup, {frees_last_and_allocs, makes_holes, NULL}, audit, 3, 1},
    {"holes-collect", collect_setup, {collects_and_allocs, makes_holes, NULL}, audit, 3, 1},
    {"holes-abandon", rest_setup, {abandons, makes_holes, reclaims}, audit, 2, 1},
    {"holes-abandoned", abandoned_setup, {frees_last, makes_holes, reclaims}, audit, 2, 1},
    {"holes-destroy", heap_setup, {empties_and_destroys, makes_holes, NULL}, heap_audit, 3, 1},
    {"holes-delete", heap_setup, {empties_and_deletes, makes_holes, NULL}, heap_audit, 3, 1},
    {"holes-forbid", last_setup, {frees_last_and_collects, makes_holes, forbids}, audit, 2, 1},
    {NULL, NULL, {NULL, NULL, NULL}, NULL, 0, 0},
};
