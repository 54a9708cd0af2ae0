// SPDX-License-Identifier: MIT
// As many heaps at once as the documents promise, made by one thread and given up by another, and
// what they leave behind.
#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>

#include "api_check.h"

enum { HEAPS = 65000, USED_EACH = 13 };

static mi_heap_t* heaps[HEAPS];
static void* blocks[HEAPS / USED_EACH];

static int64_t heaps_now(void) {
  mi_stats_t stats;
  mi_stats_init(&stats);
  CHECK(mi_stats_get(&stats));
  return stats.heaps.current;
}

static void* give_up(void* arg) {
  (void)arg;
  for (size_t i = 0; i < HEAPS; i++) {
    if (i % 2 == 0) mi_heap_destroy(heaps[i]);
    else mi_heap_delete(heaps[i]);
  }
  return NULL;
}

int main(void) {
  const int64_t before = heaps_now();
  for (size_t i = 0; i < HEAPS; i++) {
    heaps[i] = mi_heap_new();
    CHECK_ROW(heaps[i] != NULL, i);
    if (i % USED_EACH == 0) blocks[i / USED_EACH] = mi_heap_malloc(heaps[i], 40);
  }
  CHECK(heaps_now() == before + HEAPS);
  for (size_t i = 0; i < HEAPS; i += USED_EACH) {
    CHECK_ROW(mi_heap_of(blocks[i / USED_EACH]) == heaps[i], i);
  }
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, &give_up, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(heaps_now() == before);
  for (size_t i = USED_EACH; i < HEAPS; i += 2 * USED_EACH) {
    CHECK_ROW(mi_heap_of(blocks[i / USED_EACH]) == mi_heap_main(), i);
    mi_free(blocks[i / USED_EACH]);
  }
  CHECK(!mi_any_heap_contains(blocks[0]));
  return 0;
}
