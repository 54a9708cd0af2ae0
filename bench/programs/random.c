// SPDX-License-Identifier: MIT
// random: blocks of random size with random lifetimes.
//
// A table of `live` blocks; each step picks a slot at random, gives its block back and puts a
// block of a fresh random size there. Lifetimes are therefore geometric, neighbours in memory die
// at unrelated times, and the live set stays constant: the plainest picture of a long-running
// program. The runner uses it for small sizes (16 to 1,024 bytes, 8,192 live) and for large ones
// (16 bytes to 128 KiB).
//
// Arguments: threads, steps per thread, smallest size, largest size, live blocks per thread,
// distribution (0 uniform, 1 every doubling equally often).
#include "common.h"

typedef struct options {
  size_t steps, smallest, largest, live, distribution;
} options_t;

typedef struct slot {
  void* block;
  size_t size;
} slot_t;

static size_t draw(bench_rng_t* rng, const options_t* o) {
  if (o->distribution == 0) return bench_between(rng, o->smallest, o->largest);
  size_t doublings = 0;
  while ((o->smallest << (doublings + 1)) <= o->largest) doublings++;
  size_t base = o->smallest << bench_below(rng, doublings == 0 ? 1 : doublings);
  size_t size = base + bench_below(rng, base);
  return size > o->largest ? o->largest : size;
}

static void work(size_t index, void* context) {
  const options_t* o = (const options_t*)context;
  bench_rng_t rng = bench_rng(index);
  slot_t* slots = (slot_t*)bench_need(calloc(o->live, sizeof(slot_t)), o->live);
  for (size_t step = 0; step < o->steps; step++) {
    size_t i = bench_below(&rng, o->live);
    slot_t* slot = &slots[i];
    if (slot->block != NULL) {
      bench_check(slot->block, slot->size, i);
      free(slot->block);
    }
    slot->size = draw(&rng, o);
    slot->block = bench_need(malloc(slot->size), slot->size);
    bench_stamp(slot->block, slot->size, i);
  }
  for (size_t i = 0; i < o->live; i++) {
    if (slots[i].block != NULL) bench_check(slots[i].block, slots[i].size, i);
    free(slots[i].block);
  }
  free(slots);
}

int main(int argc, char** argv) {
  size_t threads = bench_arg(argc, argv, 1, 1);
  options_t o;
  o.steps = bench_arg(argc, argv, 2, 40000000);
  o.smallest = bench_arg(argc, argv, 3, 16);
  o.largest = bench_arg(argc, argv, 4, 1024);
  o.live = bench_arg(argc, argv, 5, 8192);
  o.distribution = bench_arg(argc, argv, 6, 0);
  if (o.smallest == 0 || o.largest < o.smallest || o.live == 0) bench_fail("empty range");
  bench_threads(threads, work, &o);
  printf("random: %zu threads, %zu steps each, %zu live blocks of %zu to %zu bytes\n", threads,
         o.steps, o.live, o.smallest, o.largest);
  return 0;
}
