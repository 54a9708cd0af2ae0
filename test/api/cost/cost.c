// SPDX-License-Identifier: MIT
// Loops whose instructions check_cost.py counts: cost LOOP COUNT.
#include <mimalloc.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 100, SIZE = 48 };

static void* volatile sink;

static void pair(mi_heap_t* heap) {
  (void)heap;
  mi_free(mi_malloc(SIZE));
}

static void heap_pair(mi_heap_t* heap) { mi_free(mi_heap_malloc(heap, SIZE)); }

static void pairs(mi_heap_t* heap) {
  (void)heap;
  for (int i = 0; i < BLOCKS; i++) {
    sink = mi_malloc(SIZE);
    mi_free(sink);
  }
}

static void whole_heap(mi_heap_t* heap) {
  heap = mi_heap_new();
  for (int i = 0; i < BLOCKS; i++) sink = mi_heap_malloc(heap, SIZE);
  mi_heap_destroy(heap);
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(mi_heap_t* heap);
  } loops[] = {{"pair", &pair}, {"heap-pair", &heap_pair}, {"pairs", &pairs},
               {"whole-heap", &whole_heap}};
  if (argc != 3) return 2;
  mi_heap_t* const heap = mi_heap_new();
  for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
    if (strcmp(argv[1], loops[i].name) != 0) continue;
    for (long n = atol(argv[2]); n > 0; n--) loops[i].run(heap);
    return 0;
  }
  return 2;
}
