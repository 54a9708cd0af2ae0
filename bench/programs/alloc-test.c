// SPDX-License-Identifier: MIT
// alloc-test: sizes and lifetimes by Pareto's law (after the published description of the test by
// OLogN Technologies, "Testing memory allocators while trying to simulate real-world loads").
//
// A table of slots; each step picks a slot, frees its block or, if it is empty, allocates one.
// Both the slot and the size follow a Pareto distribution: a few slots are used all the time, so
// that most blocks live briefly, while those in the long tail live very long; small sizes are
// common and large ones rare. Every byte of a block is written once and read once, as a program
// that allocates something does. The work per thread does not depend on the number of threads:
// equal times for 1 and N mean perfect scaling.
//
// Arguments: threads, steps per thread, slots per thread, largest size.
#include <math.h>

#include "common.h"

enum { TABLE = 4096 };

typedef struct options {
  size_t steps, slots, largest;
  // Drawing from a table is far cheaper than a power function in every step.
  uint32_t slot_table[TABLE], size_table[TABLE];
} options_t;

typedef struct slot {
  uint8_t* block;
  uint32_t size;
  uint8_t value;
} slot_t;

// Quantiles of a Pareto distribution cut off at `limit`; 80 % of the mass on 20 % of the range.
static void fill_table(uint32_t* table, double lowest, double limit) {
  const double alpha = 1.16;
  double most = 1 - pow(lowest / limit, alpha);
  for (size_t i = 0; i < TABLE; i++) {
    double u = most * ((double)i + 0.5) / TABLE;
    table[i] = (uint32_t)(lowest / pow(1 - u, 1 / alpha));
  }
}

static void allocate(slot_t* slot, uint32_t size, uint8_t value) {
  slot->size = size;
  slot->value = value;
  slot->block = (uint8_t*)bench_need(malloc(size), size);
  memset(slot->block, value, size);
}

static void release(slot_t* slot) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < slot->size; i++) sum += slot->block[i];
  if (sum != slot->size * (uint32_t)slot->value) bench_fail("a block was overwritten");
  free(slot->block);
  slot->block = NULL;
}

static void work(size_t index, void* context) {
  const options_t* o = (const options_t*)context;
  bench_rng_t rng = bench_rng(index);
  slot_t* slots = (slot_t*)bench_need(calloc(o->slots, sizeof(slot_t)), o->slots);
  for (size_t step = 0; step < o->steps; step++) {
    uint64_t random = bench_next(&rng);
    // The table gives the scale of the index, further bits spread it within.
    size_t scale = o->slot_table[random % TABLE];
    size_t i = (scale + (random >> 24) % scale) % o->slots;
    if (slots[i].block == NULL) {
      allocate(&slots[i], o->size_table[(random >> 12) % TABLE], (uint8_t)(random >> 56));
    } else {
      release(&slots[i]);
    }
  }
  for (size_t i = 0; i < o->slots; i++) {
    if (slots[i].block != NULL) release(&slots[i]);
  }
  free(slots);
}

int main(int argc, char** argv) {
  static options_t o;
  size_t threads = bench_arg(argc, argv, 1, 1);
  o.steps = bench_arg(argc, argv, 2, 30000000);
  o.slots = bench_arg(argc, argv, 3, 100000);
  o.largest = bench_arg(argc, argv, 4, 1024);
  if (o.slots < 256 || o.largest < 16) bench_fail("arguments out of range");
  fill_table(o.slot_table, 64, (double)o.slots);
  fill_table(o.size_table, 8, (double)o.largest);
  bench_threads(threads, work, &o);
  printf("alloc-test: %zu threads, %zu steps each, %zu slots, to %zu bytes\n", threads, o.steps,
         o.slots, o.largest);
  return 0;
}
