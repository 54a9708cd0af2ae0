// SPDX-License-Identifier: MIT
// sh6bench: the pattern of MicroQuill's SmartHeap stress test as its readers describe it: runs of
// equal sizes, most of them freed last-allocated-first, others in the reverse order, some kept.
//
// For every size of a ladder a run of blocks is allocated. Of each run, three blocks in four are
// freed from the newest to the oldest; of every fourth run all blocks are freed from the oldest
// to the newest. What is kept goes when the ladder comes round again, into memory that has moved
// on meanwhile.
//
// Arguments: threads, turns of the ladder, blocks in a run, largest size.
#include "common.h"

enum { SIZES = 40 };

typedef struct options {
  size_t turns, run, largest;
} options_t;

typedef struct line {
  size_t sizes[SIZES];
  size_t kept[SIZES];  // blocks of the previous turn that are still alive
  uint8_t** blocks[SIZES];
} line_t;

static uint64_t key(size_t size_index, size_t i) { return size_index * 1000003 + i; }

static void give_back(line_t* line, size_t s, size_t i) {
  bench_check(line->blocks[s][i], line->sizes[s], key(s, i));
  free(line->blocks[s][i]);
}

static void turn(line_t* line, const options_t* o, size_t number) {
  for (size_t s = 0; s < SIZES; s++) {
    for (size_t i = 0; i < line->kept[s]; i++) give_back(line, s, i);
    for (size_t i = 0; i < o->run; i++) {
      line->blocks[s][i] = (uint8_t*)bench_need(malloc(line->sizes[s]), line->sizes[s]);
      bench_stamp(line->blocks[s][i], line->sizes[s], key(s, i));
    }
    if ((s + number) % 4 == 3) {
      for (size_t i = 0; i < o->run; i++) give_back(line, s, i);
      line->kept[s] = 0;
    } else {
      line->kept[s] = o->run / 4;
      for (size_t i = o->run; i-- > line->kept[s];) give_back(line, s, i);
    }
  }
}

static void work(size_t index, void* context) {
  const options_t* o = (const options_t*)context;
  line_t* line = (line_t*)bench_need(calloc(1, sizeof *line), sizeof *line);
  bench_rng_t rng = bench_rng(index);
  for (size_t s = 0; s < SIZES; s++) {
    // Small sizes on every second step, random ones to the largest on the others.
    line->sizes[s] = s % 2 == 0 ? 8 + 4 * s : bench_between(&rng, 1, o->largest);
    size_t bytes = o->run * sizeof *line->blocks[s];
    line->blocks[s] = (uint8_t**)bench_need(malloc(bytes), bytes);
  }
  for (size_t t = 0; t < o->turns; t++) turn(line, o, t);
  for (size_t s = 0; s < SIZES; s++) {
    for (size_t i = 0; i < line->kept[s]; i++) give_back(line, s, i);
    free(line->blocks[s]);
  }
  free(line);
}

int main(int argc, char** argv) {
  size_t threads = bench_arg(argc, argv, 1, 1);
  options_t o;
  o.turns = bench_arg(argc, argv, 2, 1000);
  o.run = bench_arg(argc, argv, 3, 1000);
  o.largest = bench_arg(argc, argv, 4, 1000);
  if (o.run < 4 || o.largest == 0) bench_fail("arguments out of range");
  bench_threads(threads, work, &o);
  printf("sh6bench: %zu threads, %zu turns of %d runs of %zu blocks\n", threads, o.turns, SIZES,
         o.run);
  return 0;
}
