// SPDX-License-Identifier: MIT
// Memory that went back and is wanted again may wait longer from then on: each slice of it counts,
// the first of a page as well as those by which the page grows.
#include <stdio.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/subproc.h"

#define SIZE ((size_t)100 * 1024)
#define BLOCKS 60  // of more pages than one, which grow by a slice or two
#define GONE 1000

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

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
  printf("%d failures\n", failures);
  return failures != 0;
}
