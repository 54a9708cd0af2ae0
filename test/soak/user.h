// SPDX-License-Identifier: MIT
// What the programs of this folder share: they behave as a user's program does and say once in an
// interval how much memory they have and how long their operations took.
//
// Called as `program [SECONDS [SEED [THREADS [INTERVAL]]]]`. Each line of the output is a row: seconds since
// the start, resident bytes, operations in the interval, and the median, the 99th percentile and the
// longest of their times in nanoseconds.
#ifndef SOAK_USER_H
#define SOAK_USER_H

#include "../stress/stress.h"

// Times by octaves, each in eight parts.
#define USER_PARTS 8
#define USER_STEPS (40 * USER_PARTS)

typedef struct user_times_s {
  atomic_uint count[USER_STEPS];
  atomic_ullong longest;
} user_times_t;

static user_times_t user_times;
static double user_interval = 1;

static uint64_t user_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static size_t user_step_of(uint64_t ns) {
  if (ns < USER_PARTS) return (size_t)ns;
  const unsigned octave = 63 - (unsigned)__builtin_clzll(ns);
  const size_t step = (octave - 2) * USER_PARTS + ((ns >> (octave - 3)) & (USER_PARTS - 1));
  return step < USER_STEPS ? step : USER_STEPS - 1;
}

static uint64_t user_step_ns(size_t step) {
  if (step < USER_PARTS) return step;
  return (uint64_t)(USER_PARTS + step % USER_PARTS) << (step / USER_PARTS - 1);
}

// An operation that began then is over.
static void user_took(uint64_t begin) {
  const uint64_t ns = user_now() - begin;
  atomic_fetch_add_explicit(&user_times.count[user_step_of(ns)], 1, memory_order_relaxed);
  unsigned long long longest = atomic_load_explicit(&user_times.longest, memory_order_relaxed);
  while (ns > longest && !atomic_compare_exchange_weak(&user_times.longest, &longest, ns)) continue;
}

static void user_row(void) {
  static unsigned counts[USER_STEPS];
  size_t all = 0;
  for (size_t i = 0; i < USER_STEPS; i++) all += counts[i] = atomic_exchange(&user_times.count[i], 0);
  const unsigned long long longest = atomic_exchange(&user_times.longest, 0);
  uint64_t median = 0, slow = 0;
  size_t below = 0;
  for (size_t i = 0; i < USER_STEPS; i++) {
    below += counts[i];
    if (median == 0 && 2 * below >= all) median = user_step_ns(i);
    if (slow == 0 && 100 * below >= 99 * all) slow = user_step_ns(i);
  }
  printf("%.2f %zu %zu %llu %llu %llu\n", stress_time(), resident(), all, (unsigned long long)median,
         (unsigned long long)slow, longest);
  fflush(stdout);
}

// Runs `body` in so many threads, each with its number, and prints rows until the time is over.
static void user_run(void* (*body)(void*), int threads, int argc, char** argv) {
  pthread_t running[RELAY_MAX];
  if (argc > 4) user_interval = atof(argv[4]);
  check(threads <= RELAY_MAX);
  for (int i = 0; i < threads; i++) running[i] = start(body, (void*)(intptr_t)(i + 1));
  for (int n = 1; !stress_is_over(); n++) {
    double left = n * user_interval - stress_time();
    if (left > stress_seconds - stress_time()) left = stress_seconds - stress_time();
    if (left > 0) usleep((useconds_t)(left * 1e6) + 1);
    user_row();
  }
  for (int i = 0; i < threads; i++) pthread_join(running[i], NULL);
}

#endif
