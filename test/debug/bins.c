// SPDX-License-Identifier: MIT
// Statistics per bin: how many blocks of each size are in use, while they come and go, from this
// thread and another.
#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 300 };

static int failures;
static const size_t sizes[] = {1, 24, 100, 1000, 5000, 70000};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
static void* blocks[SIZES][BLOCKS];

// What is in use of the bin that a block of this size is in.
static int64_t in_use(const mi_stats_t* stats, size_t size) {
  size_t bin = 1;
  while (bin < MI_BIN_HUGE && mi_stats_get_bin_size(bin) < size) bin++;
  return stats->malloc_bins[bin].current;
}

static void compare(int line, const mi_stats_t* before, int64_t more) {
  mi_stats_t now;
  mi_stats_init(&now);
  if (!mi_stats_get(&now)) abort();
  for (int s = 0; s < SIZES; s++) {
    // The canary is part of the block.
    const size_t whole = sizes[s] + 8;
    const int64_t got = in_use(&now, whole) - in_use(before, whole);
    if (got == more) continue;
    printf("FAIL line %d: %lld blocks of size %zu, not %lld\n", line, (long long)got, sizes[s],
           (long long)more);
    failures++;
  }
}

static void* free_all(void* unused) {
  for (int s = 0; s < SIZES; s++) {
    for (int i = 0; i < BLOCKS; i += 2) mi_free(blocks[s][i]);
  }
  return unused;
}

int main(void) {
  mi_stats_t before;
  mi_stats_init(&before);
  mi_free(mi_malloc(100));
  if (!mi_stats_get(&before)) abort();
  for (int s = 0; s < SIZES; s++) {
    for (int i = 0; i < BLOCKS; i++) blocks[s][i] = mi_malloc(sizes[s]);
  }
  compare(__LINE__, &before, BLOCKS);
  for (int s = 0; s < SIZES; s++) {
    for (int i = 1; i < BLOCKS; i += 2) mi_free(blocks[s][i]);
  }
  mi_collect(false);
  compare(__LINE__, &before, BLOCKS / 2);
  // What another thread frees counts until the owner takes it in.
  pthread_t thread;
  if (pthread_create(&thread, NULL, free_all, NULL) != 0) abort();
  pthread_join(thread, NULL);
  mi_collect(false);
  compare(__LINE__, &before, 0);
  printf("%d failures\n", failures);
  return failures != 0;
}
