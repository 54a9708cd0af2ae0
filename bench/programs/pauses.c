// SPDX-License-Identifier: MIT
// pauses: the longest single call of a thread that goes on while much of its memory is free.
//
// Blocks are made and a part of them is freed; then small ones replace each other at random, and
// each free with the malloc behind it is timed. What an allocator gives back after a delay falls
// into one of them, or is spread over many.
//
// Arguments: blocks, bytes of each, percent that is freed, milliseconds. Prints the longest times,
// in microseconds, with the millisecond in which each began, and the resident memory.
#include <time.h>
#include <unistd.h>

#include "common.h"

enum { SLOTS = 4096, TOP = 5, SIZES = 2000 };

typedef struct call_s {
  double took, at;
} call_t;

static double microseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void note(call_t* top, double took, double at) {
  for (size_t i = 0; i < TOP; i++) {
    if (took <= top[i].took) continue;
    memmove(&top[i + 1], &top[i], (TOP - 1 - i) * sizeof(*top));
    top[i] = (call_t){took, at};
    return;
  }
}

static long resident_mib(void) {
  long all = 0, resident = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &all, &resident) != 2) bench_fail("no statm");
  fclose(file);
  return resident * sysconf(_SC_PAGESIZE) >> 20;
}

int main(int argc, char** argv) {
  const size_t count = bench_arg(argc, argv, 1, 40000);
  const size_t size = bench_arg(argc, argv, 2, 32768);
  const size_t percent = bench_arg(argc, argv, 3, 20);
  const double end = (double)bench_arg(argc, argv, 4, 1500) * 1e3;
  static void* slots[SLOTS];
  call_t top[TOP] = {{0, 0}};
  char** const blocks = (char**)bench_need(calloc(count, sizeof(*blocks)), count * sizeof(*blocks));
  for (size_t i = 0; i < count; i++) {
    blocks[i] = (char*)bench_need(malloc(size), size);
    memset(blocks[i], 1, size);
  }
  const long full = resident_mib();
  for (size_t i = 0; i < count / 100 * percent; i++) free(blocks[i]);
  const double begin = microseconds();
  bench_rng_t random = bench_rng(1);
  for (double now = begin; now - begin < end;) {
    void** const slot = &slots[bench_below(&random, SLOTS)];
    const size_t bytes = bench_between(&random, 16, SIZES);
    const double before = microseconds();
    free(*slot);
    *slot = bench_need(malloc(bytes), bytes);
    now = microseconds();
    memset(*slot, 1, 16);
    note(top, now - before, before - begin);
  }
  printf("pauses: %ld MiB, at the end %ld; longest calls (us at ms):", full, resident_mib());
  for (size_t i = 0; i < TOP; i++) printf(" %.0f at %.0f", top[i].took, top[i].at / 1e3);
  printf("\n");
  return 0;
}
