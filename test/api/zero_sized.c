// SPDX-License-Identifier: MIT
// Blocks of no bytes cost the same however many there are: replacing some of 401,408 takes little
// longer than some of 64. What depends on their number takes 10,000 times as long.
#include <time.h>

#include <mimalloc-prof.h>

#include "base/mitigations.h"
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

// How many of the blocks' stretches of 64 KiB are seen for the first time.
static size_t new_stretches(void) {
  static uintptr_t seen[16 * MANY / 4096];
  static size_t count;
  const size_t before = count;
  for (int i = 0; i < MANY; i++) {
    const uintptr_t at = (uintptr_t)blocks[i] >> 16;
    size_t k = count;
    while (k > 0 && seen[k - 1] != at) k--;
    if (k == 0 && count < sizeof(seen) / sizeof(seen[0])) seen[count++] = at;
  }
  return count - before;
}

int main(void) {
  for (int i = 0; i < FEW; i++) blocks[i] = mi_malloc(0);
  const double few = replace();
  for (int i = FEW; i < MANY; i++) blocks[i] = mi_malloc(0);
  const double many = replace();
  printf("%d replaced: %.6f s of %d, %.6f s of %d\n", TURNS, few, FEW, many, MANY);
  EXPECT(many < 30 * few + 0.005);
  EXPECT(new_stretches() > 30);
  // What was full and is free again serves again.
  for (int i = 0; i < MANY; i++) mi_free(blocks[i]);
  for (int i = 0; i < MANY; i++) blocks[i] = mi_malloc(0);
  EXPECT(new_stretches() < 30);
  for (int i = 0; i < MANY; i++) mi_free(blocks[i]);
  // They are no others while the program is profiled: none lies among blocks of a byte.
  mi_option_set(mi_option_guarded_sample_rate, 0);
  EXPECT(mi_prof_start(0));
  void *const small = mi_malloc(1), *const empty = mi_malloc(0);
  EXPECT(!MX_ZERO_BLOCKS || (uintptr_t)small >> 16 != (uintptr_t)empty >> 16);
  mi_free(small);
  mi_free(empty);
  mi_prof_stop();
  return expect_end("zero-sized");
}
