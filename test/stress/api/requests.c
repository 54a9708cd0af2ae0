// SPDX-License-Identifier: MIT
// A thread for each request, a few at once: each begins with what one before it left, frees what
// others allocated, and ends, while another thread takes all of that apart: by collecting, by looking
// at abandoned pages, and by the option that says how many may leave their pages to the next. Some
// have a heap of their own, which others delete.
#include "../stress.h"

#include "mimalloc-stats.h"
#include "mimalloc.h"

#define SHELF 256  // blocks that go from thread to thread
#define BLOCKS 60

static _Atomic(block_t*) shelf[SHELF];
static _Atomic(mi_heap_t*) given;  // by its maker, to be deleted
static atomic_bool stop;

static block_t* fresh(mi_heap_t* heap, random_t* r) {
  const size_t size = 32 + random_below(r, random_below(r, 20) == 0 ? 60000 : 2000);
  block_t* const b = (block_t*)(heap == NULL ? mi_malloc(size) : mi_heap_malloc(heap, size));
  check(b != NULL);
  block_sign(b, size, random_next(r));
  return b;
}

static void done_with(block_t* b) {
  if (b == NULL) return;
  block_check(b);
  b->stamp = ~b->stamp;
  mi_free(b);
}

static void* serve(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  mi_heap_t* const heap = (random_below(&r, 8) == 0 ? mi_heap_new() : NULL);
  block_t* mine[BLOCKS];
  const size_t count = 1 + random_below(&r, BLOCKS);
  for (size_t i = 0; i < count; i++) mine[i] = fresh(i % 4 == 0 ? heap : NULL, &r);
  for (size_t i = 0; i < count; i++) {
    const bool is_given = (random_below(&r, 8) == 0);
    done_with(is_given ? atomic_exchange(&shelf[random_below(&r, SHELF)], mine[i]) : mine[i]);
  }
  if (heap != NULL) {
    mi_heap_t* const other = atomic_exchange(&given, heap);
    if (other != NULL) mi_heap_delete(other);
  }
  return NULL;
}

static bool count_areas(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                        void* arg) {
  (void)heap, (void)area, (void)block, (void)size;
  ++*(size_t*)arg;
  return true;
}

static void* disturb(void* arg) {
  random_t r = random_of(99);
  size_t turns = 0;
  for (; !stop; turns++) {
    size_t areas = 0;
    switch (random_below(&r, 8)) {
      case 0: mi_collect(true); break;
      case 1: mi_option_set(mi_option_theap_retain, (long)random_below(&r, 9)); break;
      case 2:
        if (!STRESS_TSAN) mi_abandoned_visit_blocks(mi_subproc_main(), -1, false, count_areas, &areas);
        break;
      default: done_with(atomic_exchange(&shelf[random_below(&r, SHELF)], fresh(NULL, &r)));
    }
    usleep(200);
  }
  *(size_t*)arg = turns;
  return NULL;
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  mi_option_set(mi_option_visit_abandoned, 1);
  mi_option_set(mi_option_background_purge, stress_seed % 2);
  size_t turns = 0;
  pthread_t thread = start(disturb, &turns);
  const size_t threads = relay(serve, 8);
  stop = true;
  pthread_join(thread, NULL);
  for (size_t i = 0; i < SHELF; i++) done_with(shelf[i]);
  if (given != NULL) mi_heap_delete(given);
  mi_collect(true);
  mi_stats_t_decl(stats);
  check(mi_stats_get(&stats));
  check(stats.threads.current == 1 && stats.theaps.current == 1);
  check(stats.malloc_normal.current < 100000);
  printf("%zu threads, %zu turns\n", threads, turns);
  return 0;
}
