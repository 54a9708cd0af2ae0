// SPDX-License-Identifier: MIT
// Visits of heaps, thread-heaps and sub-processes: one that stops at any area or block has seen
// just so many, and says so; one that does not has seen all of them, in pages of every list. A
// thread that ends a sub-process waits for those that visit it.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/subproc.h"
#include "../../src/service/walk.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

#define BLOCKS 6000
#define SIZE 1000
#define HUGE_SIZE ((size_t)5 << 20)

typedef struct seen_s {
  size_t areas, blocks;
  size_t stop_area, stop_block;  // 0: none
} seen_t;

static bool see(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                void* arg) {
  seen_t* const seen = (seen_t*)arg;
  (void)heap;
  (void)size;
  EXPECT(area != NULL && area->used * area->block_size <= area->reserved);
  if (block == NULL) return ++seen->areas != seen->stop_area;
  return ++seen->blocks != seen->stop_block;
}

typedef bool visit_fn(void* of, bool with_blocks, seen_t* seen);

static bool visit_heap(void* of, bool with_blocks, seen_t* seen) {
  return mi_heap_visit_blocks((mi_heap_t*)of, with_blocks, &see, seen);
}

static bool visit_theap(void* of, bool with_blocks, seen_t* seen) {
  return mi_theap_visit_blocks((mi_theap_t*)of, with_blocks, &see, seen);
}

static bool visit_subproc(void* of, bool with_blocks, seen_t* seen) {
  const mx_visit_t visit = {&see, seen, with_blocks, false};
  return mx_walk_subproc((mx_subproc_t*)of, -1, &visit);
}

static void try_stops(visit_fn* visit, void* of, size_t least_blocks) {
  seen_t all = {0, 0, 0, 0};
  EXPECT(visit(of, true, &all) && all.areas > 0 && all.blocks >= least_blocks);
  for (size_t n = 1; n <= all.areas; n++) {
    seen_t some = {0, 0, n, 0};
    EXPECT(!visit(of, false, &some) && some.areas == n && some.blocks == 0);
  }
  seen_t beyond = {0, 0, all.areas + 1, all.blocks + 1};
  EXPECT(visit(of, true, &beyond) && beyond.areas == all.areas && beyond.blocks == all.blocks);
  for (size_t n = 1; n <= all.blocks; n += all.blocks / 17 + 1) {
    seen_t some = {0, 0, 0, n};
    EXPECT(!visit(of, true, &some) && some.blocks == n);
  }
}

// Full pages, pages with some blocks freed, one that is current, and blocks alone in theirs.
static void fill(mi_heap_t* heap, void** blocks) {
  for (size_t i = 0; i < BLOCKS; i++) blocks[i] = mi_heap_malloc(heap, SIZE);
  for (size_t i = BLOCKS / 2; i < BLOCKS; i += 3) {
    mi_free(blocks[i]);
    blocks[i] = NULL;
  }
  blocks[BLOCKS] = mi_heap_malloc(heap, HUGE_SIZE);
  blocks[BLOCKS + 1] = mi_heap_malloc(heap, 16);
}

static size_t drop(void** blocks, bool frees) {
  size_t live = 0;
  for (size_t i = 0; i < BLOCKS + 2; i++) {
    if (blocks[i] == NULL) continue;
    live++;
    if (frees) mi_free(blocks[i]);
  }
  return live;
}

typedef struct end_s {
  mx_subproc_t* subproc;
  void (*run)(mx_subproc_t* subproc);
  mx_atomic(bool) is_over;
} end_t;

static void* ends(void* arg) {
  end_t* const end = (end_t*)arg;
  end->run(end->subproc);
  mx_store_release(&end->is_over, true);
  return NULL;
}

// A thread that ends a sub-process waits for those that visit it, and nobody else begins to.
static void end_while_visited(void (*run)(mx_subproc_t* subproc)) {
  pthread_t thread;
  end_t end = {mx_subproc_create(), run, false};
  mx_subproc_t* at = mx_subproc_step(NULL);
  while (at != NULL && at != end.subproc) at = mx_subproc_step(at);
  EXPECT(at != NULL && pthread_create(&thread, NULL, &ends, &end) == 0);
  for (bool is_seen = true; is_seen;) {
    is_seen = false;
    for (mx_subproc_t* s = NULL; (s = mx_subproc_step(s)) != NULL;) is_seen |= (s == end.subproc);
  }
  usleep(20000);
  EXPECT(!mx_load_acquire(&end.is_over));
  while (at != NULL) at = mx_subproc_step(at);
  pthread_join(thread, NULL);
  EXPECT(mx_load_acquire(&end.is_over));
}

// In the order of making, whichever of them end.
static void in_order(void) {
  enum { COUNT = 6 };
  static const int ends_first[] = {5, 2, 0, 4};
  mx_subproc_t* made[COUNT];
  for (int i = 0; i < COUNT; i++) made[i] = mx_subproc_create();
  for (size_t n = 0; n < sizeof(ends_first) / sizeof(*ends_first); n++) {
    mx_subproc_delete(made[ends_first[n]]);
    made[ends_first[n]] = NULL;
  }
  made[5] = mx_subproc_create();  // behind all others again
  int next = 0;
  for (mx_subproc_t* s = mx_subproc_step(&mx_subproc_main); s != NULL; s = mx_subproc_step(s)) {
    while (next < COUNT && made[next] == NULL) next++;
    EXPECT(next < COUNT && s == made[next]);
    next++;
  }
  EXPECT(next == COUNT);
  for (int i = 0; i < COUNT; i++) {
    if (made[i] != NULL) mx_subproc_delete(made[i]);
  }
  EXPECT(mx_subproc_main.next == NULL);
}

int main(void) {
  static void *own[BLOCKS + 2], *main_blocks[BLOCKS + 2], *outside[4];
  mi_heap_t* const heap = mi_heap_new();
  fill(heap, own);
  fill(mi_heap_main(), main_blocks);
  // Outside the arenas, as where no arena may be made.
  mi_option_set(mi_option_disallow_arena_alloc, 1);
  for (size_t i = 0; i < 4; i++) outside[i] = mi_malloc(HUGE_SIZE);
  mi_option_set(mi_option_disallow_arena_alloc, 0);
  try_stops(&visit_heap, heap, drop(own, false));
  try_stops(&visit_heap, mi_heap_main(), drop(main_blocks, false) + 4);
  try_stops(&visit_theap, mi_heap_theap(heap), BLOCKS / 4);
  try_stops(&visit_theap, mi_heap_theap(mi_heap_main()), BLOCKS / 4);
  try_stops(&visit_subproc, &mx_subproc_main, drop(own, false) + drop(main_blocks, false) + 4);
  for (size_t i = 0; i < 4; i++) mi_free(outside[i]);
  drop(own, true);
  drop(main_blocks, true);
  mi_heap_delete(heap);
  end_while_visited(&mx_subproc_delete);
  end_while_visited(&mx_subproc_destroy);
  in_order();
  printf("visits: %d failures\n", failures);
  return failures != 0;
}
