// SPDX-License-Identifier: MIT
// passing: threads that pass blocks of many sizes to others through a short queue, as pools of a
// server do: makers allocate two of a size, takers free one, few are live at any time.
//
// Arguments: makers, takers, blocks, largest size in bytes.
#include <stdbool.h>

#include "common.h"

enum { QUEUE = 40, OWN = 50000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_more = PTHREAD_COND_INITIALIZER, is_room = PTHREAD_COND_INITIALIZER;
static char* queue[QUEUE];
static size_t first, last, number, makers, most, largest;

static char* block_of(size_t size) { return (char*)bench_need(malloc(size), size); }

// The number of the next block; behind the last one a maker is done, and the last maker tells all.
static bool next_number(size_t* n) {
  pthread_mutex_lock(&lock);
  *n = number++;
  if (*n == most + makers - 1) pthread_cond_broadcast(&is_more);
  pthread_mutex_unlock(&lock);
  return *n < most;
}

static void make(void) {
  for (size_t n; next_number(&n);) {
    const size_t size = n * 131 % largest + 1;
    char* const own = block_of(size);
    char* const passed = block_of(size);
    memset(own, 1, size);
    memcpy(passed, own, size);
    pthread_mutex_lock(&lock);
    while (last - first >= QUEUE) pthread_cond_wait(&is_room, &lock);
    queue[last++ % QUEUE] = passed;
    pthread_cond_signal(&is_more);
    pthread_mutex_unlock(&lock);
    free(own);
  }
}

static char* take_passed(void) {
  pthread_mutex_lock(&lock);
  while (last == first && number < most + makers) pthread_cond_wait(&is_more, &lock);
  char* const passed = (last == first ? NULL : queue[first++ % QUEUE]);
  pthread_cond_signal(&is_room);
  pthread_mutex_unlock(&lock);
  return passed;
}

static void take(void) {
  for (char* passed; (passed = take_passed()) != NULL;) {
    char* const own = block_of(OWN);
    memset(own, 2, OWN);
    free(passed);
    free(own);
  }
}

static void run(size_t index, void* context) {
  (void)context;
  if (index < makers) make();
  else take();
}

int main(int argc, char** argv) {
  makers = bench_arg(argc, argv, 1, 12);
  const size_t takers = bench_arg(argc, argv, 2, 8);
  most = bench_arg(argc, argv, 3, 100000);
  largest = bench_arg(argc, argv, 4, 100000);
  if (makers == 0 || takers == 0 || largest == 0) bench_fail("nobody makes or takes anything");
  bench_threads(makers + takers, &run, NULL);
  printf("passing: %zu makers and %zu takers of %zu blocks\n", makers, takers, most);
  return 0;
}
