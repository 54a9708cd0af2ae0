// SPDX-License-Identifier: MIT
// The scenarios of first-class heaps: given up by one thread while others use and free what
// they hold.
#include "../../src/heap/heap_end.h"
#include "../../src/heap/heap_record.h"
#include "../../src/heap/thread_life.h"
#include "world.h"

static mx_heap_t* heap;
static void* block[8];
static int owner[8];

static void* heap_alloc(size_t size) {
  mx_theap_t* theap = mx_thread_theap_of(heap, true);
  if (theap == NULL) ex_fail("no theap");
  uint64_t* p = (uint64_t*)mx_alloc_in(theap, size);
  if (p == NULL) ex_fail("out of memory");
  p[0] = p[1] = (uint64_t)ex_thread_id();
  return p;
}

static void heap_blocks_of(int t, size_t first, size_t n) {
  ex_become(t);
  for (size_t i = first; i < first + n; i++) {
    block[i] = heap_alloc(WORLD_BLOCK);
    owner[i] = t;
  }
  ex_become(0);
}

static void free_block(size_t i) {
  world_free(block[i], owner[i]);
  block[i] = NULL;
}

static void make_heap(void) {
  world_start(12);
  heap = mx_heap_create(&mx_subproc_main, NULL, 0, true);
  ex_check(heap != NULL);
  ex_quiet(&heap->counters, sizeof(heap->counters));
}

static void one_user(void) {
  make_heap();
  heap_blocks_of(1, 0, 3);
}

static void one_parks(void) {
  one_user();
  world_park(2);
}

static void two_users(void) {
  make_heap();
  heap_blocks_of(1, 0, 2);
  heap_blocks_of(2, 2, 2);
}

static void abandoned(void) {
  one_user();
  ex_become(1);
  world_end_thread();
  ex_become(0);
}

static void deletes(void) { mx_heap_delete(heap); }
static mx_heap_t* heir;  // has the deleted heap's record
static void deletes_and_makes(void) {
  mx_heap_delete(heap);
  heir = mx_heap_create(&mx_subproc_main, NULL, 0, true);
}
static void destroys(void) {
  for (size_t i = 0; i < 8; i++) block[i] = NULL;
  mx_heap_destroy(heap);
}
static void ends(void) { world_end_thread(); }
static void collects(void) { mx_thread_collect(true); }
static void frees_0(void) { free_block(0); }
static void frees_1(void) { free_block(1); }
static void frees_0_1_2(void) {
  free_block(0);
  free_block(1);
  free_block(2);
}
static void allocs(void) {
  block[5] = heap_alloc(WORLD_BLOCK);
  owner[5] = ex_self();
}
static void allocs_elsewhere(void) {
  block[6] = world_alloc(WORLD_BLOCK);
  owner[6] = ex_self();
}

static void audit(void) {
  ex_check(mx_load_relaxed(&heap->id) == MX_HEAP_GONE);
  ex_check(heap->pages == NULL && heap->theaps == NULL);
  world_audit(block, owner, 8);
}

// Nothing that was still under way for the deleted heap may count for the one with its record.
static void audit_heir(void) {
  ex_check(heir != NULL);
  ex_check(mx_load_relaxed(&heir->listed) == 0);
  mx_heap_delete(heir);
  world_audit(block, owner, 8);
}

// The heap lives on: nothing of it may be lost either.
static void audit_living(void) {
  for (size_t i = 0; i < 8; i++) {
    if (block[i] != NULL) free_block(i);
  }
  for (int i = EX_THREADS - 1; i >= 0; i--) {
    ex_become(i);
    world_end_thread();
  }
  ex_become(0);
  mx_heap_delete(heap);
  audit();
}

const ex_scenario_t ex_heap_scenarios[] = {
    {"heap-delete", one_user, {ends, deletes, frees_0}, audit, 2, 1},
    {"heap-delete-parks", one_parks, {ends, deletes, frees_0}, audit, 2, 1},
    {"heap-delete-frees", one_user, {frees_0, deletes, frees_1}, audit, 2, 1},
    {"heap-delete-last", one_user, {NULL, deletes, frees_0_1_2}, audit, 3, 2},
    {"heap-delete-2", two_users, {ends, collects, deletes}, audit, 2, 1},
    {"heap-abandoned", abandoned, {frees_0_1_2, deletes, allocs_elsewhere}, audit, 2, 1},
    {"heap-record", abandoned, {frees_0, deletes_and_makes, NULL}, audit_heir, 2, 1},
    {"heap-destroy", two_users, {ends, collects, destroys}, audit, 2, 1},
    {"heap-reclaim", abandoned, {frees_0_1_2, allocs, allocs_elsewhere}, audit_living, 2, 1},
    {NULL, NULL, {NULL, NULL, NULL}, NULL, 0, 0},
};
