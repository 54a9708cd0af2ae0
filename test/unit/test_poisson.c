// SPDX-License-Identifier: MIT
// The mathematics of sampling against that of the C library: the probability that bytes hold a point,
// how random distances are distributed, and that each allocation goes its size of one. Chances are
// such that a right library fails once in some hundred million runs.
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "../../include/mimalloc-prof.h"
#include "../../include/mimalloc.h"
#include "../../src/alloc/poisson.h"
#include "../../src/heap/thread_life.h"

#define DRAWS 400000

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static bool is_close(double found, double wanted, double share) {
  if (fabs(found - wanted) <= share * fabs(wanted)) return true;
  printf("%.17g where %.17g was expected\n", found, wanted);
  return false;
}

static void test_shares(void) {
  for (double mean = 1; mean < 1e9; mean *= 7.3) {
    for (double size = 1; size < 1e15; size = size * 1.19 + 1) {
      const size_t bytes = (size_t)size;
      EXPECT(is_close(mx_poisson_share(bytes, mean), -expm1(-(double)bytes / mean), 1e-11));
    }
  }
  EXPECT(mx_poisson_share(0, 512) == 0);
}

// Of n draws that are below a bound with the probability p, those that are deviate from n p by less
// than six standard deviations.
static void test_distances(void) {
  static const double parts[] = {0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999};
  enum { PARTS = sizeof(parts) / sizeof(parts[0]) };
  static const double mean = 524288;
  int below[PARTS] = {0};
  double sum = 0, squares = 0;
  for (int i = 0; i < DRAWS; i++) {
    const double d = mx_poisson_distance(mean) / mean;
    EXPECT(d >= 0 && d < 60);
    sum += d;
    squares += d * d;
    for (int k = 0; k < PARTS; k++) below[k] += (d <= -log1p(-parts[k]));
  }
  EXPECT(is_close(sum / DRAWS, 1, 6 / sqrt(DRAWS)));
  EXPECT(is_close(squares / DRAWS, 2, 6 * sqrt(20.0 / DRAWS) / 2));
  for (int k = 0; k < PARTS; k++) {
    const double p = parts[k], deviation = sqrt(DRAWS * p * (1 - p));
    EXPECT(fabs(below[k] - DRAWS * p) <= 6 * deviation);
  }
}

static void test_draws(void) {
  int hits = 0;
  for (int i = 0; i < DRAWS; i++) hits += mx_poisson_draw(0.3);
  EXPECT(fabs(hits - 0.3 * DRAWS) <= 6 * sqrt(DRAWS * 0.21));
  for (int i = 0; i < 1000; i++) EXPECT(mx_poisson_draw(1.0));
}

static int64_t until_sample(void) {
  const mx_theap_sampling_t* const sampling = &mx_thread_theap()->sampling;
  return sampling->until_sample + (int64_t)sampling->credit;
}

static void test_counted(void) {
  EXPECT(mi_prof_start(1 << 20));
  mi_free(mi_malloc(3 << 20));  // from here on this thread is sampled
  mx_thread_theap()->sampling.until_sample = (int64_t)1 << 40;
  for (int turn = 0; turn < 4; turn++) {
    for (size_t size = 1; size < 5000000; size += 1 + size / 5) {
      const int64_t before = until_sample();
      void* p = (turn % 2 == 0 ? mi_malloc(size) : mi_calloc(1, size));
      EXPECT(before - until_sample() == (int64_t)size);
      mi_free(p);
    }
  }
  mi_prof_stop();
}

int main(void) {
  mi_free(mi_malloc(1));
  test_shares();
  test_distances();
  test_draws();
  test_counted();
  printf("poisson: %d failures\n", failures);
  return failures != 0;
}
