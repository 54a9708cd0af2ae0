// SPDX-License-Identifier: MIT
// What the owner of a page does while somebody makes holes in it, at the very moment when an OS page's
// contents go: it frees into the page, allocates, or has no block left in it. And what of a page's
// memory becomes a hole, which threads may make one, and how they are filled.
#include "../stress.h"

#include "heap/heap.h"
#include "heap/trim.h"
#include "mem/vmem.h"
#include "mimalloc.h"
#include "mock_os.h"
#include "os/thread.h"
#include "page/blocks.h"
#include "page/freelist.h"
#include "page/holes.h"
#include "page/holes.h"

#define SIZE 1008
#define BLOCKS 160

static unsigned char* blocks[BLOCKS];
static mx_page_t* page;       // at rest, all but `LEFT` of its blocks free
static size_t first, count;   // its blocks among all
#define LEFT 3

static intptr_t in_use(void) { return mx_load_relaxed(&mx_subproc_main.arenas.in_use); }

// Fills some pages, and frees the blocks of the second one but for a few in its middle.
static void make_page(void) {
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = (unsigned char*)mi_malloc(SIZE);
    memset(blocks[i], (int)(i % 251), SIZE);
  }
  for (first = 0; mx_pagemap_get(blocks[first]) == mx_pagemap_get(blocks[0]);) first++;
  page = mx_pagemap_get(blocks[first]);
  for (count = 0; mx_pagemap_get(blocks[first + count]) == page;) count++;
  check(count > 30 && first + count < BLOCKS);
  for (size_t i = first; i < first + count; i++) {
    if (i - first - count / 2 < LEFT) continue;
    mi_free(blocks[i]);
    blocks[i] = NULL;
  }
  check(page->used == LEFT);
}

static void drop_all(void) {
  for (size_t i = 0; i < BLOCKS; i++) {
    for (size_t k = 0; blocks[i] != NULL && k < SIZE; k += 100) check(blocks[i][k] == i % 251);
    mi_free(blocks[i]);
    blocks[i] = NULL;
  }
  mi_collect(true);
}

static void free_left(void) {
  for (size_t i = first; i < first + count; i++) {
    mi_free(blocks[i]);
    blocks[i] = NULL;
  }
}

// Fills the page's holes: all that it can give is memory of its own.
static void fill_again(void) {
  const size_t had = page->used;
  for (size_t i = first; i < first + count; i++) {
    if (blocks[i] != NULL) continue;
    unsigned char* const p = (unsigned char*)mi_malloc(SIZE);
    memset(p, (int)(i % 251), SIZE);
    blocks[i] = p;
  }
  check(page->used >= had && mx_page_is_valid(page));
}

// ---- making ------------------------------------------------------------------------------------

static void test_made(bool is_owner) {
  make_page();
  const int64_t before = mx_load_relaxed(&mx_process_counters.committed.current);
  const size_t bytes = mx_page_make_holes(page, is_owner);
  check(bytes >= (count - LEFT) * SIZE / 2 && mx_page_has_holes(page));
  check(mx_load_relaxed(&mx_process_counters.committed.current) == before - (int64_t)bytes);
  check(mx_holes_count(page) > 0 && mx_holes_count(page) <= count - LEFT);
  check(mx_page_is_valid(page));
  check(mx_page_make_holes(page, is_owner) == 0 && mx_page_has_holes(page));  // there is no more
  mx_holes_take_filled();
  fill_again();
  mi_collect(false);
  void* more[BLOCKS];
  size_t extra = 0;
  while (mx_page_has_holes(page) && extra < BLOCKS) more[extra++] = mi_malloc(SIZE);
  check(mx_holes_count(page) == 0);
  const size_t filled = mx_holes_take_filled();
  check(filled >= bytes && filled <= bytes + 2 * mx_facts.os_page && mx_holes_take_filled() == 0);
  while (extra > 0) mi_free(more[--extra]);
  drop_all();
}

// All blocks are free: the page begins anew.
static void test_empty(void) {
  make_page();
  free_left();
  check(page->used == 0 && mx_page_make_holes(page, false) > 0);
  check(page->capacity == 0 && page->free == NULL && !mx_page_has_holes(page));
  drop_all();
}

static void test_forbidden(void) {
  make_page();
  mx_holes_forbid();
  mx_holes_forbid();
  check(!mx_holes_begin() && mx_page_make_holes(page, false) == 0);
  mx_holes_allow();
  check(!mx_holes_begin());
  mx_holes_allow();
  mock_fail_all();
  check(mx_page_make_holes(page, false) == 0 && !mx_page_has_holes(page));
  mock_heal();
  check(mx_page_is_valid(page) && mx_page_make_holes(page, false) > 0);
  // The current page does not rest.
  void* const other = mi_malloc(48);
  mx_page_t* const current = mx_pagemap_get(other);
  check(mx_page_make_holes(current, true) == 0 && !mx_page_is_lent(current));
  mi_free(other);
  mx_holes_forbid();
  mx_holes_after_fork();  // whoever forbade it is gone
  check(mx_holes_begin());
  mx_holes_end();
  mx_call_leave();
  drop_all();
}

// Whether a look is worth while, and what keeps the memory of a page.
static void test_promise(void) {
  make_page();
  check(mx_holes_promise(page));
  const mx_page_t* const full = mx_pagemap_get(blocks[0]);
  check(!mx_holes_promise(full));
  const uint32_t seen = mx_holes_signature(page);
  check(seen != 0 && seen == mx_holes_signature(page));
  check(mx_holes_begin());
  const mx_pins_t pins = mx_pins_of(page, blocks[first + count / 2]);
  const mx_pins_t none = mx_pins_of(mx_pagemap_get(blocks[0]), blocks[0]);
  mx_holes_end();
  check(pins.shared > 0 && pins.shared <= 2.0 * (double)mx_facts.os_page);
  check(none.shared == 0 && none.alone == 0);
  mi_free(blocks[first + count / 2]);
  blocks[first + count / 2] = NULL;
  check(seen != mx_holes_signature(page));
  free_left();
  check(!mx_holes_promise(page));  // nothing keeps it
  drop_all();
}

// ---- meanwhile ---------------------------------------------------------------------------------

static bool has_run;

static void frees_one(void) {
  has_run = true;
  check(mx_page_is_lent(page) && !mx_holes_begin());
  const size_t i = first + count / 2;
  mi_free(blocks[i]);
  blocks[i] = NULL;
}

static void test_frees(void) {
  make_page();
  has_run = false;
  mock_during_purge(&frees_one);
  check(mx_page_make_holes(page, false) > 0 && has_run);
  check(page->used == LEFT - 1 && mx_page_is_valid(page) && !mx_page_is_lent(page));
  // Nothing is lost: carved blocks are in use, free or in holes.
  size_t free_ones = 0;
  for (const mx_block_t* b = page->free; b != NULL; b = mx_block_next(page, b)) free_ones++;
  check(page->used + free_ones + mx_holes_count(page) == page->capacity);
  fill_again();
  drop_all();
}

static void allocates(void) {
  void* got[BLOCKS];
  has_run = true;
  for (int i = 0; i < BLOCKS; i++) {
    got[i] = mi_malloc(SIZE);
    check(mx_pagemap_get(got[i]) != page);
  }
  for (int i = 0; i < BLOCKS; i++) mi_free(got[i]);
}

static void test_allocates(void) {
  make_page();
  has_run = false;
  mock_during_purge(&allocates);
  check(mx_page_make_holes(page, false) > 0 && has_run && mx_page_is_valid(page));
  drop_all();
}

static void ends(void) {
  has_run = true;
  const intptr_t before = in_use();
  free_left();
  mi_collect(true);
  check(in_use() <= before && mx_page_is_lent(page));
  check((mx_load_relaxed(&page->lend) & MX_PAGE_GONE) != 0);
}

// The thread that has borrowed it releases it.
static void test_ends(void) {
  make_page();
  has_run = false;
  mx_arena_t* const arena = page->arena;
  const size_t index = page->slice_index;
  mock_during_purge(&ends);
  check(mx_page_make_holes(page, false) > 0 && has_run);
  check(mx_bits_test(arena->free, index));
  check(mx_pagemap_get(arena->start + index * MX_SLICE_SIZE) != page ||
        mx_load_relaxed(&page->lend) == 0);
  drop_all();
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  mi_option_set(mi_option_purge_delay, 100000);
  if (!MX_HOLES) {
    check(!mx_holes_begin());
    return 0;
  }
  mi_free(mi_malloc(1));
  test_made(false);
  test_made(true);
  test_empty();
  test_forbidden();
  test_promise();
  test_frees();
  test_allocates();
  test_ends();
  printf("ok\n");
  return 0;
}
