// SPDX-License-Identifier: MIT
// Sums of counters: each number goes where its namesake is, none is left out, none is counted twice,
// and what lies behind the counters stays as it was.
#include <stdio.h>
#include <string.h>

#include "../../src/base/counters.h"

#define COUNTS (offsetof(mx_counters_t, reset) / sizeof(mx_count_t))
#define COUNTERS ((sizeof(mx_counters_t) - offsetof(mx_counters_t, reset)) / sizeof(int64_t))
#define FENCE 0x5A

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

typedef struct fenced_s {
  mx_counters_t all;
  unsigned char fence[2 * sizeof(mx_count_t)];
} fenced_t;

static mx_count_t* count(fenced_t* f, size_t i) { return &f->all.bin_pages[0] + i; }
static mx_atomic(int64_t)* counter(fenced_t* f, size_t i) { return &f->all.reset + i; }

// Numbers of which no two are alike: i is now there, of a sum of 10 i, and 3 i at most.
static void fill(fenced_t* f, int64_t factor) {
  memset(f->fence, FENCE, sizeof(f->fence));
  for (size_t i = 0; i < COUNTS; i++) {
    const int64_t n = factor * (int64_t)(i + 1);
    count(f, i)->current = n;
    count(f, i)->total = 10 * n;
    count(f, i)->peak = 3 * n;
  }
  for (size_t i = 0; i < COUNTERS; i++) *counter(f, i) = factor * (int64_t)(1000 + i);
}

static int is_fenced(const fenced_t* f) {
  for (size_t i = 0; i < sizeof(f->fence); i++) {
    if (f->fence[i] != FENCE) return 0;
  }
  return 1;
}

static int has(fenced_t* f, size_t i, int64_t current, int64_t total, int64_t peak) {
  const mx_count_t* const c = count(f, i);
  if (c->current == current && c->total == total && c->peak == peak) return 1;
  printf("count %zu: %lld of %lld, at most %lld\n", i, (long long)c->current, (long long)c->total,
         (long long)c->peak);
  return 0;
}

static fenced_t to, from;

static void start(void) {
  fill(&to, 1);
  fill(&from, 100);
}

static void test_move_past(void) {
  start();
  mx_counters_move_past(&to.all, &from.all);
  for (size_t i = 0; i < COUNTS; i++) {
    const int64_t n = (int64_t)i + 1;
    EXPECT(has(&to, i, n, 910 * n, 300 * n));
    EXPECT(has(&from, i, 100 * n, 100 * n, 100 * n));
  }
  for (size_t i = 0; i < COUNTERS; i++) {
    EXPECT(*counter(&to, i) == 101 * (int64_t)(1000 + i) && *counter(&from, i) == 0);
  }
  EXPECT(is_fenced(&to) && is_fenced(&from));
}

// Of the bins only those with a bit, which are all that count.
static void test_move(int with_current) {
  uint64_t bins[MX_BIN_WORDS] = {0};
  start();
  for (size_t i = 0; i < MX_BIN_COUNT; i++) {
    if (i % 3 != 0) memset(count(&from, i), 0, sizeof(mx_count_t));
    else bins[i / 64] |= (uint64_t)1 << i % 64;
  }
  mx_counters_move(&to.all, &from.all, bins, with_current != 0);
  for (size_t i = 0; i < COUNTS; i++) {
    const int64_t n = (int64_t)i + 1;
    const int counts = (i >= MX_BIN_COUNT || i % 3 == 0);
    const int64_t current = n + (counts && with_current ? 100 * n : 0);
    EXPECT(has(&to, i, current, counts ? 1010 * n : 10 * n, counts ? 300 * n : 3 * n));
    EXPECT(has(&from, i, 0, 0, 0));
  }
  for (size_t i = 0; i < COUNTERS; i++) {
    EXPECT(*counter(&to, i) == 101 * (int64_t)(1000 + i) && *counter(&from, i) == 0);
  }
}

static void test_one(void) {
  mx_count_t c = {0};
  mx_count_add(&c, 5);
  mx_count_add(&c, -3);
  mx_count_add(&c, 2);
  EXPECT(c.current == 4 && c.total == 7 && c.peak == 5);
  mx_count_add_locked(&c, 3);
  mx_count_add_locked(&c, -7);
  EXPECT(c.current == 0 && c.total == 10 && c.peak == 7);
}

// What is there now of nothing that was counted before goes along, too.
static void test_only_current(void) {
  start();
  mx_count_t* const c = count(&from, COUNTS - 1);
  const int64_t there = count(&to, COUNTS - 1)->current;
  c->total = 0;
  c->current = -5;
  mx_counters_move(&to.all, &from.all, NULL, true);
  EXPECT(count(&to, COUNTS - 1)->current == there - 5 && c->current == 0);
}

int main(void) {
  test_one();
  test_only_current();
  test_move_past();
  for (int with_current = 0; with_current < 2; with_current++) test_move(with_current);
  EXPECT(is_fenced(&to) && is_fenced(&from));
  printf("counters: %d failures\n", failures);
  return failures != 0;
}
