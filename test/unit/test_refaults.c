// SPDX-License-Identifier: MIT
// Memory that went back and is wanted again may wait longer from then on: each slice of it counts,
// the first of a page as well as those by which the page grows.
#include <stdio.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/subproc.h"

#define SIZE ((size_t)100 * 1024)
#define BLOCKS 60  // of more pages than one, which grow by a slice or two
#define GONE 1000
#define LARGE ((size_t)40 << 20)

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

// A request as large as that: a block that shrinks for the second time gives back what it did the
// first time. From the third time on it takes turns.
static void test_large(mx_arenas_t* arenas) {
  const intptr_t slices = (intptr_t)(LARGE / MX_SLICE_SIZE);
  for (int turn = 0; turn < 3; turn++) {
    mi_collect(true);
    mx_store_relaxed(&arenas->gone, slices);
    mx_store_relaxed(&arenas->keep, (intptr_t)0);
    void* const p = mi_malloc(LARGE);
    EXPECT(p != NULL && mx_load_relaxed(&arenas->gone) == 0);
    EXPECT(mx_load_relaxed(&arenas->keep) == (turn == 0 ? 0 : slices));
    mi_free(p);
  }
}

int main(void) {
  mx_arenas_t* const arenas = &mx_subproc_main.arenas;
  void* blocks[BLOCKS];
  mi_free(mi_malloc(1));
  mi_collect(true);
  EXPECT(mx_load_relaxed(&arenas->purgeable) == 0 && mx_load_relaxed(&arenas->keep) == 0);
  mx_store_relaxed(&arenas->gone, (intptr_t)GONE);
  const intptr_t before = mx_load_relaxed(&arenas->in_use);
  for (size_t i = 0; i < BLOCKS; i++) blocks[i] = mi_malloc(SIZE);
  const intptr_t taken = mx_load_relaxed(&arenas->in_use) - before;
  EXPECT(taken >= (intptr_t)(BLOCKS * SIZE / MX_SLICE_SIZE));
  EXPECT(mx_load_relaxed(&arenas->keep) == taken);
  EXPECT(mx_load_relaxed(&arenas->gone) == GONE - taken);
  for (size_t i = 0; i < BLOCKS; i++) mi_free(blocks[i]);
  if (!MX_LARGE_APART) test_large(arenas);  // else they come from no arena
  printf("%d failures\n", failures);
  return failures != 0;
}
