// SPDX-License-Identifier: MIT
// Threads are born and end all the time, each leaves live blocks behind, and the main thread frees
// those later. Memory must not grow with the number of threads that there were.
//
// Each thread also has a destructor of thread-specific data that allocates and frees once more, in
// every round that pthread grants, so the library sees calls after it was told of the thread's end.
#include "stress.h"

#define KEPT 32      // blocks that each thread leaves
#define HISTORY 64   // threads whose blocks are live

static block_t* left[HISTORY][KEPT];
static pthread_key_t key;

static void at_end(void* value) {
  const int round = (int)(intptr_t)value;
  block_t* b = block_new(100 + (size_t)round, (uint64_t)round);
  block_t* c = block_new(3000, 7);
  block_free(b);
  block_free(c);
  if (round < 6) pthread_setspecific(key, (void*)(intptr_t)(round + 1));
}

static void* body(void* arg) {
  const size_t number = (size_t)(uintptr_t)arg;
  random_t r = random_of(number);
  if (!STRESS_TSAN) pthread_setspecific(key, (void*)1);
  for (int i = 0; i < KEPT; i++) {
    // No larger ones: pages of those take long until they have been touched all over.
    left[number % HISTORY][i] = block_new(32 + random_below(&r, 4000), random_next(&r));
    block_free(block_new(32 + random_below(&r, 4000), 5));
  }
  return NULL;
}

// The highest of some samples of resident memory.
static size_t highest(const size_t* samples, size_t from, size_t to) {
  size_t most = 0;
  for (size_t i = from; i < to; i++) most = samples[i] > most ? samples[i] : most;
  return most;
}

static void free_left(size_t number) {
  for (int k = 0; k < KEPT; k++) {
    block_free(left[number % HISTORY][k]);
    left[number % HISTORY][k] = NULL;
  }
}

int main(int argc, char** argv) {
  static size_t samples[1 << 16];
  stress_args(argc, argv);
  pthread_key_create(&key, at_end);
  pthread_t threads[8];
  const size_t n = 8;
  size_t number = 0, count = 0;
  while (!stress_is_over() || number < 10000) {
    for (size_t i = 0; i < n; i++) {
      free_left(number + i);
      threads[i] = start(body, (void*)(number + i));
    }
    for (size_t i = 0; i < n; i++) pthread_join(threads[i], NULL);
    number += n;
    if (number % 400 == 0 && count < 1 << 16) samples[count++] = resident();
  }
  for (size_t i = 0; i < HISTORY; i++) free_left(i);
  const size_t before = highest(samples, count / 4, count / 2);
  const size_t after = highest(samples, count * 3 / 4, count);
  printf("%zu threads; resident at most %zu KiB in the second quarter, %zu KiB in the last\n", number,
         before / 1024, after / 1024);
  // Twice the threads: what grows with their number would double. Fewer are no proof: it takes that
  // long until pages of every size have been everywhere.
  const bool grows = (number > 24000 && after > before * 3 / 2 + ((size_t)4 << 20));
  // Far above what 64 threads' blocks and any build's own needs come to.
  if (grows || after > (size_t)256 << 20) fail("memory grows with the number of threads");
  return 0;
}
