// SPDX-License-Identifier: MIT
// malloc-large: blocks of megabytes with random lifetimes.
//
// A few slots, each replaced at random by a block of 5 to 25 MiB; one byte of every 4 KiB is
// written and the first and last are compared. An allocator that gives each block back to the
// system pays for all those pages again; one that keeps everything pays in memory.
//
// Arguments: threads, replacements per thread, slots per thread, smallest and largest size in KiB.
#include "common.h"

enum { OS_PAGE = 4096 };

typedef struct options {
  size_t steps, slots, smallest, largest;
} options_t;

typedef struct slot {
  uint8_t* block;
  size_t size;
} slot_t;

static void release(slot_t* slot, size_t i) {
  if (slot->block == NULL) return;
  bench_check(slot->block, slot->size, i);
  free(slot->block);
  slot->block = NULL;
}

static void work(size_t index, void* context) {
  const options_t* o = (const options_t*)context;
  bench_rng_t rng = bench_rng(index);
  slot_t* slots = (slot_t*)bench_need(calloc(o->slots, sizeof(slot_t)), o->slots);
  for (size_t step = 0; step < o->steps; step++) {
    size_t i = bench_below(&rng, o->slots);
    release(&slots[i], i);
    slots[i].size = bench_between(&rng, o->smallest * 1024, o->largest * 1024);
    slots[i].block = (uint8_t*)bench_need(malloc(slots[i].size), slots[i].size);
    for (size_t at = 0; at < slots[i].size; at += OS_PAGE) slots[i].block[at] = (uint8_t)i;
    bench_stamp(slots[i].block, slots[i].size, i);
  }
  for (size_t i = 0; i < o->slots; i++) release(&slots[i], i);
  free(slots);
}

int main(int argc, char** argv) {
  size_t threads = bench_arg(argc, argv, 1, 1);
  options_t o;
  o.steps = bench_arg(argc, argv, 2, 500);
  o.slots = bench_arg(argc, argv, 3, 20);
  o.smallest = bench_arg(argc, argv, 4, 5 * 1024);
  o.largest = bench_arg(argc, argv, 5, 25 * 1024);
  if (o.smallest == 0 || o.largest < o.smallest || o.slots == 0) bench_fail("empty range");
  bench_threads(threads, work, &o);
  printf("malloc-large: %zu threads, %zu steps, %zu blocks of %zu to %zu KiB\n", threads, o.steps,
         o.slots, o.smallest, o.largest);
  return 0;
}
