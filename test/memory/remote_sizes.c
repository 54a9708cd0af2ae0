// SPDX-License-Identifier: MIT
// Blocks that other threads free in pages of sizes that nobody asks for any more: their memory is
// found again while the heap grows in other sizes.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mimalloc.h"

#define PHASES 24
#define PHASE_BYTES ((size_t)8 << 20)

static void* blocks[PHASE_BYTES / 64];
static size_t count;

// Three of four: none of the pages is empty of what its own thread frees.
static void* free_most(void* arg) {
  for (size_t i = 0; i < count; i++) {
    if (i % 4 != 0) mi_free(blocks[i]);
  }
  return arg;
}

static size_t committed(void) {
  size_t current = 0;
  mi_process_info(NULL, NULL, NULL, NULL, NULL, &current, NULL, NULL);
  return current;
}

int main(void) {
  size_t size = 64;
  for (int phase = 0; phase < PHASES; phase++, size += size / 4 / 16 * 16 + 16) {
    count = PHASE_BYTES / size;
    for (size_t i = 0; i < count; i++) {
      blocks[i] = mi_malloc(size);
      if (blocks[i] == NULL) return 2;
      memset(blocks[i], 1, size);
    }
    // The owner's own frees make its pages partial ones, which stay with it.
    for (size_t i = 0; i < count; i += 4) mi_free(blocks[i]);
    pthread_t thread;
    if (pthread_create(&thread, NULL, &free_most, NULL) != 0) return 2;
    pthread_join(thread, NULL);
  }
  const size_t now = committed(), all = PHASES * PHASE_BYTES;
  printf("%zu MiB of %zu are committed though nothing is live\n", now >> 20, all >> 20);
  return now < all / 4 ? EXIT_SUCCESS : EXIT_FAILURE;
}
