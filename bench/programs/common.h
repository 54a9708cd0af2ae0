// SPDX-License-Identifier: MIT
// What every benchmark program shares: arguments, a seeded generator, block stamps, threads.
//
// A program does a fixed amount of work that follows from its arguments alone, so that two
// allocators are given the very same calls and a faster one simply ends sooner. Blocks carry a
// stamp in their first and last bytes which is compared before they are given back: a block that
// was handed out twice, moved wrongly or trimmed ends the run with exit code 1, and the runner
// then refuses to quote it. Only malloc, calloc, realloc, free, new and delete are called, so any
// allocator can be preloaded.
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
__attribute__((noreturn, format(printf, 1, 2)))
#endif
static inline void bench_fail(const char* format, ...) {
  va_list args;
  va_start(args, format);
  fputs("bench: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  exit(1);
}

// The argument at `index`, or what stands for it when the command line is shorter.
static inline size_t bench_arg(int argc, char** argv, int index, size_t otherwise) {
  if (index >= argc) return otherwise;
  char* end = NULL;
  unsigned long long value = strtoull(argv[index], &end, 10);
  if (end == argv[index] || *end != '\0') bench_fail("not a number: %s", argv[index]);
  return (size_t)value;
}

// xorshift64*: a few cycles a number, so that the loop costs little beside the allocator.
typedef struct bench_rng {
  uint64_t state;
} bench_rng_t;

static inline bench_rng_t bench_rng(uint64_t seed) {
  bench_rng_t rng;
  rng.state = (seed + 1) * 0x9E3779B97F4A7C15ull;
  if (rng.state == 0) rng.state = 1;
  return rng;
}

static inline uint64_t bench_next(bench_rng_t* rng) {
  uint64_t x = rng->state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  rng->state = x;
  return x * 0x2545F4914F6CDD1Dull;
}

// Uniform in [0, limit), by multiplication, since a division would cost as much as a malloc.
static inline size_t bench_below(bench_rng_t* rng, size_t limit) {
  return (size_t)(((bench_next(rng) >> 32) * (uint64_t)limit) >> 32);
}

static inline size_t bench_between(bench_rng_t* rng, size_t low, size_t high) {
  return low + bench_below(rng, high - low + 1);
}

static inline void* bench_need(void* block, size_t size) {
  if (block == NULL) bench_fail("out of memory for %zu bytes", size);
  return block;
}

// Stamps: the first and last bytes of the block say which block it is and how long.
static inline void bench_stamp(void* block, size_t size, uint64_t key) {
  uint8_t* bytes = (uint8_t*)block;
  if (size >= sizeof key) {
    uint64_t word = key ^ size;
    memcpy(bytes, &word, sizeof word);
    memcpy(bytes + size - sizeof word, &word, sizeof word);
  } else if (size > 0) {
    bytes[0] = bytes[size - 1] = (uint8_t)(key ^ size);
  }
}

// The short form: where two stamps overlap (8 to 15 bytes) the later one stands.
static inline void bench_check(const void* block, size_t size, uint64_t key) {
  const uint8_t* bytes = (const uint8_t*)block;
  if (size >= sizeof key) {
    uint64_t word = key ^ size, first = word, last;
    if (size >= 2 * sizeof key) memcpy(&first, bytes, sizeof first);
    memcpy(&last, bytes + size - sizeof last, sizeof last);
    if (first != word || last != word) {
      bench_fail("block %p of %zu bytes was overwritten", block, size);
    }
  } else if (size > 0 && bytes[size - 1] != (uint8_t)(key ^ size)) {
    bench_fail("block %p of %zu bytes was overwritten", block, size);
  }
}

// Runs `body(index, context)` on `count` threads; one thread means the main thread itself, so
// that a single-threaded run never starts a second thread (which changes many allocators).
typedef struct bench_job {
  void (*body)(size_t index, void* context);
  void* context;
  size_t index;
} bench_job_t;

static void* bench_job_start(void* arg) {
  bench_job_t* job = (bench_job_t*)arg;
  job->body(job->index, job->context);
  return NULL;
}

static inline void bench_threads(size_t count, void (*body)(size_t, void*), void* context) {
  enum { MOST = 1024 };
  static bench_job_t jobs[MOST];
  static pthread_t ids[MOST];
  if (count == 0 || count > MOST) bench_fail("1 to %d threads, not %zu", (int)MOST, count);
  if (count == 1) {
    body(0, context);
    return;
  }
  for (size_t i = 0; i < count; i++) {
    jobs[i].body = body;
    jobs[i].context = context;
    jobs[i].index = i;
    if (pthread_create(&ids[i], NULL, bench_job_start, &jobs[i]) != 0) {
      bench_fail("cannot start thread %zu", i);
    }
  }
  for (size_t i = 0; i < count; i++) pthread_join(ids[i], NULL);
}

#endif
