// SPDX-License-Identifier: MIT
// Blocks of no bytes cost the same however many there are: replacing some of 401,408 takes little
// longer than some of 64. What depends on their number takes 10,000 times as long.
#include <time.h>

#include "expect.h"

enum { MANY = 98 * 4096, FEW = 64, TURNS = 2000, ROUNDS = 5 };

static void* blocks[MANY];

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// Replaces blocks that were allocated early, in the best of some rounds.
static double replace(void) {
  double best = 1e9;
  for (int round = 0; round < ROUNDS && best > 0.001; round++) {
    const double begin = seconds();
    for (int i = 0; i < TURNS; i++) {
      void** const at = &blocks[i * 7 % FEW];
      mi_free(*at);
      *at = mi_malloc(0);
      if (*at == NULL) EXPECT(*at != NULL);
      if (seconds() - begin > 2) return 2;
    }
    const double took = seconds() - begin;
    if (took < best) best = took;
  }
  return best;
}

int main(void) {
  for (int i = 0; i < FEW; i++) blocks[i] = mi_malloc(0);
  const double few = replace();
  for (int i = FEW; i < MANY; i++) blocks[i] = mi_malloc(0);
  const double many = replace();
  printf("%d replaced: %.6f s of %d, %.6f s of %d\n", TURNS, few, FEW, many, MANY);
  EXPECT(many < 30 * few + 0.005);
  for (int i = 0; i < MANY; i++) mi_free(blocks[i]);
  EXPECT(mi_malloc(0) != NULL);
  return expect_end("zero-sized");
}
