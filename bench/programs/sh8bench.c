// SPDX-License-Identifier: MIT
// sh8bench: sh6bench's pattern among threads that exchange objects (MicroQuill's SmartHeap stress
// test for several threads, after its published description).
//
// Every thread allocates runs of blocks, frees part of each run at once (some in the order of
// allocation, some in reverse), and puts what is left into a ring of shared mailboxes, from where
// it takes an older parcel, usually another thread's, and frees that.
//
// Arguments: threads, runs per thread, blocks in a run, largest size.
#include <stdatomic.h>

#include "common.h"

enum { BOXES = 64 };

typedef struct parcel {
  size_t count, size;
  uint64_t key;
  void* blocks[];
} parcel_t;

typedef struct options {
  size_t runs, count, largest;
  _Atomic(parcel_t*) boxes[BOXES];
  atomic_size_t delivered, received;
} options_t;

static void open_parcel(options_t* o, parcel_t* parcel) {
  if (parcel == NULL) return;
  for (size_t i = 0; i < parcel->count; i++) {
    bench_check(parcel->blocks[i], parcel->size, parcel->key + i);
    free(parcel->blocks[i]);
  }
  atomic_fetch_add(&o->received, parcel->count);
  free(parcel);
}

static void free_some(parcel_t* parcel, int newest_first) {
  size_t kept = parcel->count / 3;
  for (size_t n = kept; n < parcel->count; n++) {
    size_t i = newest_first ? parcel->count - 1 - (n - kept) : n;
    bench_check(parcel->blocks[i], parcel->size, parcel->key + i);
    free(parcel->blocks[i]);
  }
  parcel->count = kept;
}

static void work(size_t index, void* context) {
  options_t* o = (options_t*)context;
  bench_rng_t rng = bench_rng(index);
  for (size_t run = 0; run < o->runs; run++) {
    size_t bytes = sizeof(parcel_t) + o->count * sizeof(void*);
    parcel_t* parcel = (parcel_t*)bench_need(malloc(bytes), bytes);
    parcel->count = o->count;
    parcel->key = bench_next(&rng);
    parcel->size = bench_between(&rng, 1, run % 2 == 0 ? 64 : o->largest);
    for (size_t i = 0; i < o->count; i++) {
      parcel->blocks[i] = bench_need(malloc(parcel->size), parcel->size);
      bench_stamp(parcel->blocks[i], parcel->size, parcel->key + i);
    }
    free_some(parcel, run % 4 != 3);
    atomic_fetch_add(&o->delivered, parcel->count);
    size_t box = bench_below(&rng, BOXES);
    open_parcel(o, atomic_exchange(&o->boxes[box], parcel));
  }
}

int main(int argc, char** argv) {
  static options_t o;
  size_t threads = bench_arg(argc, argv, 1, 2);
  o.runs = bench_arg(argc, argv, 2, 60000);
  o.count = bench_arg(argc, argv, 3, 300);
  o.largest = bench_arg(argc, argv, 4, 1000);
  if (o.count == 0 || o.largest == 0) bench_fail("arguments out of range");
  bench_threads(threads, work, &o);
  for (size_t box = 0; box < BOXES; box++) open_parcel(&o, atomic_exchange(&o.boxes[box], NULL));
  if (o.delivered != o.received) bench_fail("parcels were lost");
  printf("sh8bench: %zu threads, %zu runs of %zu blocks each\n", threads, o.runs, o.count);
  return 0;
}
