// SPDX-License-Identifier: MIT
// Where blocks are replaced at random and hardly any is free, the slow path is taken for many at a
// time, and what that costs in memory is bounded.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/theap.h"
#include "../../src/heap/thread_life.h"

#define BLOCKS ((size_t)100000)
#define BYTES ((size_t)48)
#define TURNS (10 * BLOCKS)

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static uint32_t next_random(void) {
  static uint32_t state = 1;
  state ^= state << 13;
  state ^= state >> 17;
  return state ^= state << 5;
}

static intptr_t slices_in_use(void) { return mx_load_relaxed(&mx_subproc_main.arenas.in_use); }

int main(void) {
  void** const blocks = (void**)calloc(BLOCKS, sizeof(void*));
  if (blocks == NULL) return 77;
  for (size_t i = 0; i < BLOCKS; i++) blocks[i] = mi_malloc(BYTES);
  mx_theap_t* const theap = mx_thread_theap();
  const size_t visits = (size_t)theap->visits;
  const intptr_t before = slices_in_use();
  for (size_t turn = 0; turn < TURNS; turn++) {
    const size_t i = next_random() % BLOCKS;
    mi_free(blocks[i]);
    blocks[i] = mi_malloc(BYTES);
    if (blocks[i] == NULL) return 77;
  }
  const size_t taken = (size_t)theap->visits - visits;
  const intptr_t more = slices_in_use() - before;
  // 9 blocks make a page worth a visit, and at the beginning pages have none.
  EXPECT(taken < TURNS / 8);
  EXPECT(more >= 0 && more <= before / 16);
  printf("%zu visits in %zu turns, %ld slices, %ld more: %d failures\n", taken, TURNS, (long)before,
         (long)more, failures);
  for (size_t i = 0; i < BLOCKS; i++) mi_free(blocks[i]);
  free(blocks);
  return failures != 0;
}
