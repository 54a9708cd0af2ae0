// SPDX-License-Identifier: MIT
// A heap in an arena of its own allocates and frees most of it all the time, while other threads give
// memory back. Free slices that are being purged belong to the purging thread for that moment, which
// must not look as if memory were out.
#include "../stress.h"

#include "mimalloc.h"

#define MIB ((size_t)1 << 20)

static atomic_bool stop;
static mi_arena_id_t arena;

static void* collects(void* arg) {
  (void)arg;
  while (!stop) mi_collect(true);
  return NULL;
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  check(mi_reserve_os_memory_ex(64 * MIB, false, false, true, &arena) == 0);
  mi_heap_t* const heap = mi_heap_new_in_arena(arena);
  check(heap != NULL);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) threads[i] = start(collects, NULL);
  random_t r = random_of(0);
  size_t count = 0;
  for (; !stress_is_over(); count++) {
    const size_t size = (20 + random_below(&r, 40)) * MIB;
    char* const p = (char*)mi_heap_malloc(heap, size);
    if (p == NULL) fail("refused %zu bytes in round %zu, with all of the arena free", size, count);
    for (size_t i = 0; i < size; i += MIB / 4) p[i] = 1;
    mi_free(p);
  }
  stop = true;
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  mi_heap_delete(heap);
  printf("%zu blocks\n", count);
  return 0;
}
