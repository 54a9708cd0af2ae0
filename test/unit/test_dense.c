// SPDX-License-Identifier: MIT
// When huge blocks are expected to be filled: once two of a size were, each of which counts once,
// until one is not; blocks that are still empty do not matter, nor does which began last: threads
// that fill theirs at once find the other's unfinished. Sizes of which nothing is known are
// expected to be as those near them.
#include <stdio.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../../src/base/facts.h"
#include "../../src/heap/dense.h"
#include "../../src/os/os.h"
#include "../page_of.h"

#define SIZE ((size_t)12 << 20)
#define MANY 32
#define VAST ((size_t)64 << 20)

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

// Memory that was never used: what waits does not serve it.
static unsigned char* fresh_block_of(size_t size) {
  mi_collect(true);
  return (unsigned char*)mi_malloc(size);
}

static unsigned char* fresh_block(void) { return fresh_block_of(SIZE); }

// Of those that are expected to be filled every sixteenth has small OS pages all the same.
static void count_small(void) {
  unsigned char* blocks[MANY];
  int small = 0;
  for (int i = 0; i < MANY; i++) {
    blocks[i] = (unsigned char*)mi_malloc(SIZE);
    const mx_page_t* const page = page_of(blocks[i]);
    if (page->arena != NULL) small += !mx_bits_test(page->arena->large, page->slice_index);
    else small = MANY / 16;
  }
  for (int i = 0; i < MANY; i++) mi_free(blocks[i]);
  EXPECT(small == MANY / 16);
}

// What a block of `size` bytes takes.
static size_t taken_for(size_t size) {
  void* const p = fresh_block_of(size);
  const mx_page_t* const page = page_of(p);
  const size_t taken = page->slice_count * MX_SLICE_SIZE;
  mi_free(p);
  return taken;
}

// The last large OS page is had as a whole where that takes little more.
static void ends_are_large(void) {
  if (MX_GUARD_PAGES || MX_LARGE_APART) return;
  EXPECT(taken_for(SIZE - 4 * MX_SLICE_SIZE) == SIZE);
  EXPECT(taken_for(SIZE - mx_facts.large_page / 2) < SIZE);
  // All of it counts as present, so that all of it goes back.
  unsigned char* const p = fresh_block_of(SIZE - 4 * MX_SLICE_SIZE);
  const mx_page_t* const page = page_of(p);
  const mx_arena_t* const arena = page->arena;
  const size_t index = page->slice_index, count = page->slice_count;
  memset(p, 1, SIZE - 4 * MX_SLICE_SIZE);
  if (arena != NULL && mx_bits_test(arena->large, index)) {
    EXPECT(mx_arena_present_in(arena, index, count) == count * mx_arena_bits_per_slice());
  }
  mi_free(p);
  mi_collect(true);
  if (arena != NULL) EXPECT(mx_arena_present_in(arena, index, count) == 0);
  if (arena != NULL) EXPECT(!mx_os_seems_present(p + SIZE - 2 * MX_SLICE_SIZE, MX_SLICE_SIZE));
}

// Room to grow further counts when it is used, large OS pages or not.
static void room_is_not_used(void) {
  if (MX_GUARD_PAGES || MX_LARGE_APART) return;
  const size_t more = SIZE + mx_facts.large_page / 2;
  unsigned char* p = fresh_block();
  unsigned char* const behind = (unsigned char*)mi_malloc(SIZE);
  memset(p, 1, SIZE);
  p = (unsigned char*)mi_realloc(p, more);
  const mx_page_t* const page = page_of(p);
  if (page->arena != NULL) {
    const size_t present = mx_arena_present_in(page->arena, page->slice_index, page->slice_count);
    EXPECT(present <= (more + mx_facts.large_page) / mx_facts.os_page);
  }
  memset(p, 1, more);
  memset(behind, 1, SIZE);
  mi_free(p);
  mi_free(behind);
}

// Where large OS pages are expected and do not fit, small ones do.
static void fits_as_before(void) {
  enum { ROOM = 64 };
  const size_t least = 3 * SIZE - ROOM * MX_SLICE_SIZE;
  mi_arena_id_t id;
  EXPECT(mi_reserve_os_memory_ex(3 * SIZE, true, false, true, &id) == 0);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  size_t size = 3 * SIZE;
  mi_option_set(mi_option_allow_thp, 0);
  void* p = NULL;
  for (; p == NULL && size > least; size -= MX_SLICE_SIZE) p = mi_heap_malloc(heap, size);
  size += MX_SLICE_SIZE;
  EXPECT(p != NULL);
  mi_free(p);
  mi_collect(true);
  mi_option_set(mi_option_allow_thp, 1);
  EXPECT(mx_dense_is_expected(size));
  p = mi_heap_malloc(heap, size);
  EXPECT(p != NULL);
  if (p != NULL) memset(p, 1, size);
  mi_free(p);
  mi_heap_delete(heap);
}

// A size of which one block was not filled leaves those near it nothing to go by. Of two that are
// in use at a time each counts, whichever began last.
static void differ_near(void) {
  unsigned char* blocks[MANY];
  const size_t size = 2 * mx_facts.large_page;
  EXPECT(mx_dense_is_expected(size) && mx_dense_is_expected(2 * SIZE));
  mi_collect(true);
  for (int i = 0; i < MANY / 2; i++) blocks[i] = (unsigned char*)mi_malloc(size);
  for (int i = 0; i < MANY / 2; i++) mi_free(blocks[i]);
  mi_collect(true);
  EXPECT(!mx_dense_is_expected(size) && !mx_dense_is_expected(2 * SIZE));
  EXPECT(mx_dense_is_expected(SIZE));
  for (int i = 0; i < 2; i++) blocks[i] = (unsigned char*)mi_malloc(size);
  for (int i = 0; i < 2; i++) memset(blocks[i], 1, size);
  for (int i = 0; i < 2; i++) mi_free(blocks[i]);
  EXPECT(mx_dense_is_expected(size) && mx_dense_is_expected(2 * SIZE));
}

// What is known of a size counts for those of a quarter of it, too.
static void differ_two_away(void) {
  EXPECT(mx_dense_is_expected(2 * SIZE) && !mx_dense_is_expected(8 * SIZE));
  mi_free(fresh_block_of(8 * SIZE));
  EXPECT(!mx_dense_is_expected(2 * SIZE) && mx_dense_is_expected(SIZE));
}

// OS pages that count as present where a vast block was, of which the first of `parts` parts was used.
static size_t left_of_vast(size_t parts) {
  mi_collect(true);
  unsigned char* const p = (unsigned char*)mi_malloc(VAST);
  const mx_arena_t* const arena = page_of(p)->arena;
  memset(p, 1, VAST / parts);
  mi_free(p);
  if (arena == NULL) return 0;  // a mapping of its own, which is gone
  return mx_bits_count(arena->present, mx_arena_bit_of(arena, p), VAST / mx_facts.os_page);
}

// What was hardly used goes back at once, what was used waits.
static void vast_goes_back(void) {
  const bool is_apart = MX_LARGE_APART;
  EXPECT(left_of_vast(16) == 0 && left_of_vast(5) == 0);
  EXPECT(is_apart || left_of_vast(2) > 0);
  mi_option_set(mi_option_purge_delay, -1);
  EXPECT(is_apart || left_of_vast(16) > 0);
  mi_option_set(mi_option_purge_delay, 1000);
}

int main(void) {
  mi_free(mi_malloc(1));
  if (mx_facts.large_page == 0 || SIZE < 2 * mx_facts.large_page) return 77;
  mi_option_set(mi_option_allow_thp, 1);
  unsigned char* const first = fresh_block();
  unsigned char* const second = fresh_block();
  EXPECT(first != NULL && second != NULL && !mx_dense_is_expected(SIZE));
  memset(first, 1, SIZE);
  for (int i = 0; i < 4; i++) EXPECT(!mx_dense_is_expected(SIZE));
  mi_free(first);
  EXPECT(!mx_dense_is_expected(SIZE));

  memset(second, 2, SIZE);
  EXPECT(mx_dense_is_expected(SIZE) && mx_dense_is_expected(SIZE));
  EXPECT(mx_dense_is_expected(4 * SIZE) && !mx_dense_is_expected(8 * SIZE));
  EXPECT(!mx_dense_is_expected(mx_facts.large_page));
  mi_free(second);
  EXPECT(mx_dense_is_expected(SIZE));
  if (SIZE >= 4 * mx_facts.large_page) ends_are_large();
  if (SIZE >= 4 * mx_facts.large_page) room_is_not_used();
  fits_as_before();
  if (SIZE >= 4 * mx_facts.large_page) differ_near();
  differ_two_away();

  mi_option_set(mi_option_allow_thp, 0);
  EXPECT(!mx_dense_is_expected(SIZE));
  mi_option_set(mi_option_allow_thp, 2);
  EXPECT(mx_dense_is_expected(SIZE) && mx_dense_is_expected(mx_facts.large_page));
  EXPECT(!mx_dense_is_expected(mx_facts.large_page - 1));
  mi_option_set(mi_option_allow_thp, 1);

  // One that is given back unused ends it; of those that have large pages none is looked at.
  mi_collect(true);
  count_small();
  EXPECT(!mx_dense_is_expected(SIZE));
  vast_goes_back();
  printf("dense: %d failures\n", failures);
  return failures != 0;
}
