// SPDX-License-Identifier: MIT
// batch: deep batches, all allocated, then all freed.
//
// A request handler or a compiler pass builds a structure and drops it whole. Thread caches of a
// fixed depth overflow here in both directions, and allocators that merge neighbours pay for each
// merge. Blocks go back in the order of allocation, in reverse, or shuffled.
//
// Arguments: threads, rounds per thread, blocks in a batch, size, order (0 first in first out,
// 1 last in first out, 2 shuffled).
#include "common.h"

typedef struct options {
  size_t rounds, count, size, order;
} options_t;

// One permutation for all rounds: the cost of shuffling must not be part of what is measured.
static size_t* make_order(const options_t* o, bench_rng_t* rng) {
  size_t* order = (size_t*)bench_need(malloc(o->count * sizeof *order), o->count);
  for (size_t i = 0; i < o->count; i++) order[i] = o->order == 1 ? o->count - 1 - i : i;
  if (o->order == 2) {
    for (size_t i = o->count - 1; i > 0; i--) {
      size_t j = bench_below(rng, i + 1), other = order[j];
      order[j] = order[i];
      order[i] = other;
    }
  }
  return order;
}

static void work(size_t index, void* context) {
  const options_t* o = (const options_t*)context;
  bench_rng_t rng = bench_rng(index);
  size_t* order = make_order(o, &rng);
  void** blocks = (void**)bench_need(malloc(o->count * sizeof *blocks), o->count);
  for (size_t round = 0; round < o->rounds; round++) {
    for (size_t i = 0; i < o->count; i++) {
      blocks[i] = bench_need(malloc(o->size), o->size);
      bench_stamp(blocks[i], o->size, i);
    }
    for (size_t i = 0; i < o->count; i++) {
      bench_check(blocks[order[i]], o->size, order[i]);
      free(blocks[order[i]]);
    }
  }
  free(blocks);
  free(order);
}

int main(int argc, char** argv) {
  size_t threads = bench_arg(argc, argv, 1, 1);
  options_t o;
  o.rounds = bench_arg(argc, argv, 2, 4000);
  o.count = bench_arg(argc, argv, 3, 4000);
  o.size = bench_arg(argc, argv, 4, 1024);
  o.order = bench_arg(argc, argv, 5, 0);
  if (o.count == 0 || o.size == 0 || o.order > 2) bench_fail("arguments out of range");
  bench_threads(threads, work, &o);
  printf("batch: %zu threads, %zu rounds of %zu blocks of %zu bytes\n", threads, o.rounds,
         o.count, o.size);
  return 0;
}
