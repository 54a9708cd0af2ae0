// SPDX-License-Identifier: MIT
// Where runs of slices come from: the arena of the node that is asked for, or one of any node; and a
// place of its own for a block that will grow, of which nothing is left behind when it goes; and used
// memory for a page of which many more will come, wherever enough of it lies in a row.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/subproc.h"

#define GROWING_PLACE ((size_t)512)

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static mx_arenas_t* arenas(void) { return &mx_subproc_main.arenas; }

static bool take(size_t count, int node, bool grows, mx_slices_t* got) {
  const mx_slices_request_t request = {count, count, count, 1, NULL, node, grows, 0};
  return mx_slices_alloc(arenas(), &request, got);
}

static void give_back(const mx_slices_t* got) {
  mx_slices_free(arenas(), got->arena, got->index, got->count);
}

static void test_growing(void) {
  mx_slices_t first, second;
  if (!take(64, -1, true, &first)) return;
  mx_arena_t* const arena = first.arena;
  const intptr_t in_use = mx_load_relaxed(&arenas()->in_use);
  const size_t free_slices = mx_load_relaxed(&arena->free_slices);
  EXPECT(take(64, -1, true, &second));
  EXPECT(second.arena == arena && first.index != second.index);
  // Each begins where there is room, and in the last eighth, away from others.
  EXPECT((uintptr_t)first.start / MX_SLICE_SIZE % GROWING_PLACE == 0);
  EXPECT((uintptr_t)second.start / MX_SLICE_SIZE % GROWING_PLACE == 0);
  EXPECT(first.index >= arena->slices / 8 * 7 && second.index >= arena->slices / 8 * 7);
  EXPECT(mx_load_relaxed(&arena->free_slices) == free_slices - 64);
  give_back(&second);
  EXPECT(mx_load_relaxed(&arena->free_slices) == free_slices);
  EXPECT(mx_load_relaxed(&arenas()->in_use) == in_use);
  give_back(&first);
}

// A request for node 1, where there is an arena of node 0 in front of one of any node.
static void test_nodes(void) {
  mx_slices_t got;
  mi_arena_id_t id;
  if (mi_reserve_os_memory_ex(64 * 1024 * 1024, true, false, false, &id) != 0) return;
  const size_t count = mx_load_relaxed(&arenas()->count);
  EXPECT(count >= 2);
  for (size_t i = 0; i + 1 < count; i++) mx_arena_at(arenas(), i)->numa_node = 0;
  mx_arena_t* const any = mx_arena_at(arenas(), count - 1);
  any->numa_node = -1;
  mi_option_enable(mi_option_disallow_os_alloc);  // none is made for the node
  EXPECT(take(2, 1, false, &got) && got.arena == any);
  give_back(&got);
  EXPECT(take(2, 0, false, &got) && got.arena->numa_node <= 0);
  give_back(&got);
}

#define USED ((size_t)72)

static void test_used(void) {
  mi_option_set(mi_option_purge_delay, 100000);
  mx_slices_t few, many, page, end;
  if (!take(5, -1, false, &few) || !take(USED, -1, false, &many) || !take(1, -1, false, &end)) return;
  mx_arena_t* const arena = many.arena;
  EXPECT(arena == few.arena && arena == end.arena && many.index % 16 != 0);
  // While all is in use a page takes what lies behind it.
  EXPECT(!mx_slices_end_pays(arenas(), arena, end.index + 1, USED));
  memset(many.start, 1, USED * MX_SLICE_SIZE);
  mx_arena_touch(arena, many.start, USED * MX_SLICE_SIZE);
  give_back(&many);
  const size_t fresh = end.index + 1;
  EXPECT(!mx_bits_test(arena->dirty, fresh));
  EXPECT(mx_slices_end_pays(arenas(), arena, fresh, USED));
  EXPECT(mx_slices_end_pays(arenas(), arena, arena->slices, USED));
  EXPECT(!mx_slices_end_pays(arenas(), arena, fresh, USED + 6));  // not so many
  EXPECT(!mx_slices_end_pays(arenas(), arena, many.index, USED));  // what lies behind it was used, too
  const mx_slices_request_t request = {1, 64, 64, 1, NULL, -1, false, USED};
  EXPECT(mx_slices_alloc(arenas(), &request, &page) && page.index == many.index);
  EXPECT(!page.is_zero);
  // Too few wait now for a page to end.
  EXPECT(!mx_slices_end_pays(arenas(), arena, fresh, USED));
  give_back(&page);
  const mx_slices_request_t longer = {1, 64, 64, 1, NULL, -1, false, USED + 6};
  EXPECT(mx_slices_alloc(arenas(), &longer, &page) && page.index % 16 == 0);
  give_back(&page);
  mx_slices_t little;
  EXPECT(take(USED - 40, -1, false, &little));
  EXPECT(!mx_slices_end_pays(arenas(), arena, fresh, 40));  // of what may wait it is less than half
  give_back(&little);
  EXPECT(mx_slices_end_pays(arenas(), arena, fresh, 40));
  give_back(&few);
  give_back(&end);
}

#define RUNS ((size_t)7)
#define RUN ((size_t)12)
#define BLOCK ((size_t)40 * 1024)

// Blocks that need as much memory as waits in runs get most of it: pages end where a run does.
static void test_pages_in_used_runs(void) {
  mx_slices_t runs[RUNS], stops[RUNS];
  static unsigned char* blocks[RUNS * RUN * MX_SLICE_SIZE / BLOCK];
  const size_t count = sizeof(blocks) / sizeof(blocks[0]);
  for (size_t i = 0; i < RUNS; i++) {
    if (!take(RUN, -1, false, &runs[i]) || !take(1, -1, false, &stops[i])) return;
    memset(runs[i].start, 1, RUN * MX_SLICE_SIZE);
    mx_arena_touch(runs[i].arena, runs[i].start, RUN * MX_SLICE_SIZE);
  }
  mx_arena_t* const arena = runs[0].arena;
  for (size_t i = 0; i < RUNS; i++) give_back(&runs[i]);
  const size_t before = mx_bits_count(arena->dirty, 0, arena->slices);
  for (size_t i = 0; i < count; i++) {
    blocks[i] = (unsigned char*)mi_malloc(BLOCK);
    memset(blocks[i], 2, BLOCK);
  }
  size_t inside = 0;
  for (size_t i = 0; i < count; i++) {
    for (size_t r = 0; r < RUNS; r++) {
      inside += (blocks[i] >= runs[r].start && blocks[i] < runs[r].start + RUN * MX_SLICE_SIZE);
    }
  }
  printf("%zu of %zu blocks in used runs, %zu slices used before\n", inside, count, before);
  EXPECT(inside >= count * 3 / 4);
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  for (size_t i = 0; i < RUNS; i++) give_back(&stops[i]);
}

int main(void) {
  mi_option_set(mi_option_purge_delay, -1);
  mi_free(mi_malloc(1));
  if (!MX_SCATTER) test_growing();
  if (!MX_SCATTER) test_used();
  if (!MX_SCATTER) test_pages_in_used_runs();
  test_nodes();
  printf("runs: %d failures\n", failures);
  return failures != 0;
}
