// SPDX-License-Identifier: MIT
// What the leak report is told of blocks: of each once when it becomes its user's and once when it is
// freed, whatever its size and whoever frees it, also when it is sampled for a guard or changes its
// size. Else the report's own memory would grow, or name the wrong places.
#include <mimalloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "alloc/alloc.h"
#include "base/hooks.h"

#define BLOCKS_MOST 64

static int failures;
static const void* known[BLOCKS_MOST];  // that are in use
static size_t count;

#define EXPECT_AT(size, cond) \
  ((cond) ? (void)0           \
          : (void)(printf("FAIL line %d, size %zu: %s\n", __LINE__, (size_t)(size), #cond), failures++))

static size_t place_of(const void* block) {
  size_t i = 0;
  while (i < count && known[i] != block) i++;
  return i;
}

static void on_allocated(const void* block) {
  if (place_of(block) < count || count == BLOCKS_MOST) failures++;
  else known[count++] = block;
}

static void on_freed(const void* block) {
  const size_t i = place_of(block);
  if (i == count) failures++;
  else known[i] = known[--count];
}

static bool is_known(const void* block) { return place_of(block) < count; }

// What is told is the block, which an aligned pointer may lie inside of.
static bool is_known_around(const void* p) { return is_known(mx_block_of(p)); }

static void* frees(void* block) {
  mi_free(block);
  return NULL;
}

static void change_size(size_t size, size_t other) {
  void* p = mi_malloc(size);
  EXPECT_AT(size, is_known(p) && count == 1);
  p = mi_realloc(p, other);
  EXPECT_AT(other, is_known(p) && count == 1);
  mi_free(p);
  EXPECT_AT(size, count == 0);
}

static void come_and_go(size_t size) {
  void* p[4] = {mi_malloc(size), mi_calloc(1, size), mi_malloc_aligned(size, 256),
                mi_malloc_aligned_at(size, 4096, 16)};
  EXPECT_AT(size, count == 4 && is_known(p[0]) && is_known(p[1]));
  EXPECT_AT(size, is_known_around(p[2]) && is_known_around(p[3]));
  mi_free(p[0]);
  mi_free_size(p[1], size);
  mi_free_aligned(p[2], 256);
  pthread_t thread;
  if (pthread_create(&thread, NULL, &frees, p[3]) != 0) abort();
  pthread_join(thread, NULL);
  EXPECT_AT(size, count == 0);
  change_size(size, size + 1);
  change_size(size, 3 * size);
  change_size(size, size / 3 + 1);
  change_size(size, 2000000);
}

int main(void) {
  static const size_t sizes[] = {1, 40, 900, 5000, 70000, 600000, 5000000};
  mi_free(mi_malloc(1));
  mx_hooks.block_freed = on_freed;
  mx_hooks.block_allocated = on_allocated;
  for (long rate = 0; rate < 2; rate++) {
    mi_option_set(mi_option_guarded_sample_rate, rate);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) come_and_go(sizes[i]);
  }
  printf("%d failures\n", failures);
  return failures != 0;
}
