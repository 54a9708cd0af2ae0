// SPDX-License-Identifier: MIT
// Where blocks are replaced at random and hardly any is free, the slow path is taken for many at a
// time, and what that costs in memory is bounded. A buffer that grows by small steps passes through
// all sizes; the next one finds their pages, and when there is none for long they go. So do those of
// sizes that a program is done with, and no others, however few blocks of a size live at a time.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/huge_cache.h"
#include "../../src/heap/theap.h"
#include "../../src/heap/thread_life.h"
#include "../../src/os/os.h"

#define BLOCKS ((size_t)100000)
#define BYTES ((size_t)48)
#define TURNS (10 * BLOCKS)
#define BUFFERS 200

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

static void grow_buffers(void) {
  for (int i = 0; i < BUFFERS; i++) {
    void* p = NULL;
    for (size_t size = 16; size <= 3000; size += 16) p = mi_realloc(p, size);
    mi_free(p);
  }
}

// Takes the slow path, for a size that nothing else here has.
static void visit(int count) {
  for (int i = 0; i < count; i++) mi_free(mi_malloc((size_t)8 << 20));
}

static void be_done_with_all(void) {
  const uint64_t now = mx_os_clock_msecs();
  while (mx_os_clock_msecs() - now < 300) visit(1);
  visit(100);
  mx_huge_cache_flush(true);
}

static void growing_buffers(void) {
  mx_theap_t* const theap = mx_thread_theap();
  mi_collect(true);
  const intptr_t before = slices_in_use();
  grow_buffers();
  const intptr_t more = slices_in_use() - before;
  const size_t visits = (size_t)theap->visits;
  const uint64_t since = mx_os_clock_msecs();
  grow_buffers();
  // All pages may have gone once in 250 ms, and be made again.
  const size_t rounds = 1 + (size_t)(mx_os_clock_msecs() - since) / 250;
  const size_t taken = (size_t)theap->visits - visits;
  EXPECT(taken <= rounds * 400);
  EXPECT(more > 20);
  be_done_with_all();
  EXPECT(slices_in_use() - before < more / 4);
  printf("%zu visits for %d buffers, %ld slices, then %ld\n", taken, BUFFERS, (long)more,
         (long)(slices_in_use() - before));
}

static void take_turns(int turns) {
  for (int i = 0; i < turns; i++) {
    mi_free(mi_malloc(100 * (1 + next_random() % 80)));
    if (i % 64 == 0) visit(1);
  }
}

static void one_at_a_time(void) {
  enum { OFTEN = 64 * 32 * 10 };
  mx_theap_t* const theap = mx_thread_theap();
  mi_collect(true);
  const intptr_t before = slices_in_use();
  take_turns(OFTEN);
  const intptr_t more = slices_in_use() - before;
  const size_t visits = (size_t)theap->visits;
  take_turns(OFTEN);
  const size_t taken = (size_t)theap->visits - visits;
  EXPECT(taken <= OFTEN / 64 + 10);
  EXPECT(more > 20 && slices_in_use() - before <= more + 2);
  be_done_with_all();
  EXPECT(slices_in_use() - before < more / 4);
  printf("%zu visits for one block at a time, %ld slices, then %ld\n", taken, (long)more,
         (long)(slices_in_use() - before));
}

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
  growing_buffers();
  one_at_a_time();
  return failures != 0;
}
