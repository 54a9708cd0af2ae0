// SPDX-License-Identifier: MIT
// What heaps of a program's own cost: `heaps COUNT [LIVE [SIZE...]]`. COUNT times a heap is made,
// given 20 blocks of the sizes in turn (24, 100, 400 and 1,000 bytes) and destroyed, while LIVE
// heaps with as many blocks stay. It prints one line: microseconds of processor time, page faults
// and KiB more resident memory for each heap that came and went, after a first hundredth of them;
// KiB for each that stays.
#define _GNU_SOURCE
#include <sys/resource.h>
#include <unistd.h>

#include "common.h"

enum { BLOCKS = 20, SIZES_MOST = 8 };

// Where the allocator has them.
extern void* mi_heap_new(void) __attribute__((weak));
extern void* mi_heap_malloc(void* heap, size_t size) __attribute__((weak));
extern void mi_heap_destroy(void* heap) __attribute__((weak));

static size_t sizes[SIZES_MOST] = {24, 100, 400, 1000};
static size_t size_count = 4;

static void* make_heap(void) {
  void* const heap = mi_heap_new();
  if (heap == NULL) bench_fail("no heap");
  for (size_t i = 0; i < BLOCKS; i++) {
    const size_t size = sizes[i % size_count];
    *(volatile uint8_t*)bench_need(mi_heap_malloc(heap, size), size) = 1;
  }
  return heap;
}

static double resident_kib(void) {
  FILE* const file = fopen("/proc/self/statm", "r");
  long all, resident;
  if (file == NULL || fscanf(file, "%ld %ld", &all, &resident) != 2) bench_fail("no statm");
  fclose(file);
  return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1024;
}

static double micros(const struct rusage* use) {
  return (double)(use->ru_utime.tv_sec + use->ru_stime.tv_sec) * 1e6 +
         (double)(use->ru_utime.tv_usec + use->ru_stime.tv_usec);
}

static void come_and_go(size_t count) {
  for (size_t i = 0; i < count; i++) mi_heap_destroy(make_heap());
}

int main(int argc, char** argv) {
  const size_t count = bench_arg(argc, argv, 1, 20000), live = bench_arg(argc, argv, 2, 0);
  if (&mi_heap_new == NULL || &mi_heap_malloc == NULL || &mi_heap_destroy == NULL) {
    bench_fail("no heaps");
  }
  for (int i = 3; i < argc && i < 3 + SIZES_MOST; i++) {
    sizes[i - 3] = bench_arg(argc, argv, i, 0);
    size_count = (size_t)i - 2;
  }
  mi_heap_destroy(make_heap());
  const double empty = resident_kib();
  for (size_t i = 0; i < live; i++) make_heap();
  const double with_live = resident_kib();
  come_and_go(count / 100);
  struct rusage before, after;
  const double first = resident_kib();
  getrusage(RUSAGE_SELF, &before);
  come_and_go(count);
  getrusage(RUSAGE_SELF, &after);
  printf("%.2f us, %.2f faults, %.3f KiB a heap; %.1f KiB for each that stays\n",
         (micros(&after) - micros(&before)) / (double)count,
         (double)(after.ru_minflt - before.ru_minflt) / (double)count,
         (resident_kib() - first) / (double)count,
         live == 0 ? 0 : (with_live - empty) / (double)live);
  return 0;
}
