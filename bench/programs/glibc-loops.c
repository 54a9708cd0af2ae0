// SPDX-License-Identifier: MIT
// glibc-simple and glibc-thread: the two kinds of loop that the C library's own benchmarks of
// malloc are made of.
//
// simple: blocks of one size are allocated and freed in the order of allocation, in groups of 25,
// 400 and 1,600, for sizes from 8 bytes to 4 KiB. thread: every thread keeps a working set of
// 1,024 blocks and replaces random ones; sizes fall off exponentially to 1 KiB or so, as the
// sizes of usual programs do.
//
// Arguments: mode (0 simple, 1 thread), threads, repetitions.
#include "common.h"

enum { WORKING_SET = 1024, MOST = 1600 };

typedef struct options {
  size_t mode, repetitions;
} options_t;

static void simple(const options_t* o) {
  static const size_t sizes[] = {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
  static const size_t groups[] = {25, 400, MOST};
  void** blocks = (void**)bench_need(malloc(MOST * sizeof *blocks), MOST);
  for (size_t n = 0; n < o->repetitions * 30; n++) {
    size_t size = sizes[n % 10], group = groups[n / 10 % 3];
    for (size_t repeat = 0; repeat < MOST / group; repeat++) {
      for (size_t i = 0; i < group; i++) {
        blocks[i] = bench_need(malloc(size), size);
        bench_stamp(blocks[i], size, i);
      }
      for (size_t i = 0; i < group; i++) {
        bench_check(blocks[i], size, i);
        free(blocks[i]);
      }
    }
  }
  free(blocks);
}

// Geometric in the doublings: half of all sizes below 32, a quarter below 64, and so on.
static size_t draw(bench_rng_t* rng) {
  uint64_t random = bench_next(rng);
  unsigned doublings = (unsigned)__builtin_ctzll(random | 64);
  size_t base = (size_t)16 << doublings;
  return base + ((random >> 32) & (base - 1));
}

static void threaded(const options_t* o, size_t index) {
  bench_rng_t rng = bench_rng(index);
  void* blocks[WORKING_SET];
  size_t sizes[WORKING_SET];
  for (size_t i = 0; i < WORKING_SET; i++) {
    sizes[i] = draw(&rng);
    blocks[i] = bench_need(malloc(sizes[i]), sizes[i]);
    bench_stamp(blocks[i], sizes[i], i);
  }
  for (size_t n = 0; n < o->repetitions * MOST; n++) {
    size_t i = bench_below(&rng, WORKING_SET);
    bench_check(blocks[i], sizes[i], i);
    free(blocks[i]);
    sizes[i] = draw(&rng);
    blocks[i] = bench_need(malloc(sizes[i]), sizes[i]);
    bench_stamp(blocks[i], sizes[i], i);
  }
  for (size_t i = 0; i < WORKING_SET; i++) free(blocks[i]);
}

static void work(size_t index, void* context) {
  const options_t* o = (const options_t*)context;
  if (o->mode == 0) {
    simple(o);
  } else {
    threaded(o, index);
  }
}

int main(int argc, char** argv) {
  options_t o;
  o.mode = bench_arg(argc, argv, 1, 0);
  size_t threads = bench_arg(argc, argv, 2, 1);
  o.repetitions = bench_arg(argc, argv, 3, 1000);
  if (o.mode > 1) bench_fail("mode is 0 or 1");
  bench_threads(threads, work, &o);
  printf("glibc-%s: %zu threads, %zu repetitions\n", o.mode == 0 ? "simple" : "thread", threads,
         o.repetitions);
  return 0;
}
