// SPDX-License-Identifier: MIT
// rptest: phases of allocation and release over a table of blocks, with cross-thread frees (after
// the published description of rpmalloc's benchmark, which "tries to simulate realistic
// allocation patterns over multiple threads").
//
// Every thread owns a table of places. A loop of the program frees a scattered part of the table,
// then fills that part again with blocks whose sizes fall off as a power law from 16 bytes to
// 16 KiB. One block in ten is not freed by its owner but sent to the next thread, which collects
// what was sent to it once a loop. Now and then a thread drops its whole table, as a server does
// with a finished session.
//
// Arguments: threads, loops per thread, places per thread, operations per loop, percent of
// frees sent to another thread, largest size.
#include <stdatomic.h>

#include "common.h"

enum { MOST_THREADS = 256, SMALLEST = 16, TABLE = 1024 };

typedef struct block {
  struct block* next;  // while it travels to another thread
  size_t size;
} block_t;

typedef struct options {
  size_t threads, loops, places, operations, percent;
  uint32_t sizes[TABLE];
  // A cache line each, or the mailboxes themselves would be what is measured.
  struct {
    _Alignas(64) _Atomic(block_t*) first;
  } mail[MOST_THREADS];
  atomic_size_t made, gone;
} options_t;

// Density falls with the square of the size.
static void fill_sizes(uint32_t* sizes, size_t largest) {
  double most = 1 - (double)SMALLEST / (double)largest;
  for (size_t i = 0; i < TABLE; i++) {
    double u = most * ((double)i + 0.5) / TABLE;
    sizes[i] = (uint32_t)((double)SMALLEST / (1 - u));
  }
}

static void release(block_t* block) {
  bench_check(block + 1, block->size - sizeof *block, block->size);
  free(block);
}

static block_t* make(const options_t* o, bench_rng_t* rng) {
  size_t size = sizeof(block_t) + o->sizes[bench_below(rng, TABLE)];
  block_t* block = (block_t*)bench_need(malloc(size), size);
  block->next = NULL;
  block->size = size;
  bench_stamp(block + 1, size - sizeof *block, size);
  return block;
}

static void send(options_t* o, size_t to, block_t* block) {
  block_t* first = atomic_load(&o->mail[to].first);
  do {
    block->next = first;
  } while (!atomic_compare_exchange_weak(&o->mail[to].first, &first, block));
}

static size_t collect(options_t* o, size_t index) {
  size_t count = 0;
  block_t* block = atomic_exchange(&o->mail[index].first, NULL);
  while (block != NULL) {
    block_t* next = block->next;
    release(block);
    block = next;
    count++;
  }
  return count;
}

static void work(size_t index, void* context) {
  options_t* o = (options_t*)context;
  bench_rng_t rng = bench_rng(index);
  block_t** places = (block_t**)bench_need(calloc(o->places, sizeof *places), o->places);
  size_t made = 0, gone = 0;
  for (size_t loop = 0; loop < o->loops; loop++) {
    // A random start and stride scatter the part of the table that dies together.
    size_t start = bench_below(&rng, o->places), stride = 1 + 2 * bench_below(&rng, 300);
    size_t count = loop % 64 == 63 ? o->places : o->operations;
    if (count == o->places) stride = 1;
    for (size_t n = 0, i = start; n < count; n++, i = (i + stride) % o->places) {
      block_t* block = places[i];
      if (block == NULL) continue;
      places[i] = NULL;
      if (o->threads > 1 && bench_below(&rng, 100) < o->percent) {
        send(o, (index + 1) % o->threads, block);
      } else {
        release(block);
        gone++;
      }
    }
    for (size_t n = 0, i = start; n < o->operations; n++, i = (i + stride) % o->places) {
      if (places[i] != NULL) continue;
      places[i] = make(o, &rng);
      made++;
    }
    gone += collect(o, index);
  }
  for (size_t i = 0; i < o->places; i++) {
    if (places[i] == NULL) continue;
    release(places[i]);
    gone++;
  }
  free(places);
  atomic_fetch_add(&o->made, made);
  atomic_fetch_add(&o->gone, gone);
}

int main(int argc, char** argv) {
  static options_t o;
  o.threads = bench_arg(argc, argv, 1, 2);
  o.loops = bench_arg(argc, argv, 2, 2000);
  o.places = bench_arg(argc, argv, 3, 20000);
  o.operations = bench_arg(argc, argv, 4, 5000);
  o.percent = bench_arg(argc, argv, 5, 10);
  size_t largest = bench_arg(argc, argv, 6, 16384);
  if (o.threads > MOST_THREADS || o.operations > o.places || largest < SMALLEST) {
    bench_fail("arguments out of range");
  }
  fill_sizes(o.sizes, largest);
  bench_threads(o.threads, work, &o);
  for (size_t i = 0; i < o.threads; i++) o.gone += collect(&o, i);
  if (o.made != o.gone) bench_fail("%zu blocks made, %zu freed", o.made, o.gone);
  printf("rptest: %zu threads, %zu loops of %zu operations, %zu blocks\n", o.threads, o.loops,
         o.operations, o.made);
  return 0;
}
