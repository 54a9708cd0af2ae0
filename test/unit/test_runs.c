// SPDX-License-Identifier: MIT
// Where runs of slices come from: the arena of the node that is asked for, or one of any node; and a
// place of its own for a block that will grow, of which nothing is left behind when it goes.
#include <stdint.h>
#include <stdio.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/subproc.h"

#define GROWING_PLACE ((size_t)512)

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static mx_arenas_t* arenas(void) { return &mx_subproc_main.arenas; }

static bool take(size_t count, int node, bool grows, mx_slices_t* got) {
  const mx_slices_request_t request = {count, count, count, 1, NULL, node, grows};
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

int main(void) {
  mi_option_set(mi_option_purge_delay, -1);
  mi_free(mi_malloc(1));
  if (!MX_SCATTER) test_growing();
  test_nodes();
  printf("runs: %d failures\n", failures);
  return failures != 0;
}
