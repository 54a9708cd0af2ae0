// SPDX-License-Identifier: MIT
// latency: the time of every single call, as a histogram, to the 99.999th percentile.
//
// The load is random's with mixed sizes (each doubling from 16 bytes to 32 KiB equally often) and
// one remote free in sixteen when there are two threads or more. Each malloc and each free is
// timed by the processor's time-stamp counter and counted in a histogram of 32 steps to a
// doubling; the cost of reading the counter itself is measured first and subtracted. Throughput
// hides rare slow calls, and a program with deadlines feels nothing else.
//
// A call of more than 50 microseconds is the system's if the thread was switched or had a page
// fault since it last looked, which it does at every 64th call; the others are counted as `alone`,
// but for the first of each kind of a thread. Calls of the system and a hypervisor's other guests
// are among them.
//
// Arguments: threads, calls of each kind per thread, live blocks per thread.
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

#include "common.h"

enum { STEPS = 32, BUCKETS = 64 * STEPS, LARGEST_SHIFT = 10, MAILBOXES = 1024 };
enum { SLOW_NANOSECONDS = 50000, LOOK = 64 };

typedef struct histogram {
  uint64_t counts[BUCKETS];
  uint64_t total, worst, alone;
} histogram_t;

typedef struct slot {
  void* block;
  size_t size;
} slot_t;

typedef struct options {
  size_t threads, calls, live;
  uint64_t overhead, slow;
  _Atomic(slot_t*) mail[MAILBOXES];
  pthread_mutex_t lock;
  histogram_t malloc_times, free_times;
} options_t;

static uint64_t nanoseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Serialised on both sides by the fences, so that the call does not leak out of its interval.
static inline uint64_t ticks(void) {
#if defined(__x86_64__)
  __builtin_ia32_lfence();
  uint64_t now = __builtin_ia32_rdtsc();
  __builtin_ia32_lfence();
  return now;
#elif defined(__aarch64__)
  uint64_t now;
  __asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(now));
  return now;
#else
  return nanoseconds();
#endif
}

// Switches and page faults of this thread so far.
static long system_events(void) {
#if defined(RUSAGE_THREAD)
  struct rusage usage;
  if (getrusage(RUSAGE_THREAD, &usage) != 0) return 0;
  return usage.ru_nvcsw + usage.ru_nivcsw + usage.ru_minflt + usage.ru_majflt;
#else
  return 0;
#endif
}

static _Thread_local long events_seen;

static void judge_slow(histogram_t* histogram) {
  const long now = system_events();
  if (now == events_seen && histogram->total > 1) histogram->alone++;
  events_seen = now;
}

static void count(histogram_t* histogram, uint64_t duration) {
  uint64_t value = duration + STEPS;
  unsigned top = 63 - (unsigned)__builtin_clzll(value);
  size_t bucket = (top - 5) * STEPS + (size_t)(value >> (top - 5)) - STEPS;
  histogram->counts[bucket]++;
  histogram->total++;
  if (duration > histogram->worst) histogram->worst = duration;
}

static uint64_t bucket_end(size_t bucket) {
  uint64_t exponent = bucket / STEPS, step = bucket % STEPS;
  return ((step + STEPS + 1) << exponent) - STEPS;
}

static uint64_t since(const options_t* o, uint64_t start) {
  uint64_t duration = ticks() - start;
  return duration > o->overhead ? duration - o->overhead : 0;
}

static void timed_free(const options_t* o, histogram_t* times, slot_t* slot, size_t key) {
  bench_check(slot->block, slot->size, key);
  uint64_t start = ticks();
  free(slot->block);
  const uint64_t duration = since(o, start);
  count(times, duration);
  if (duration > o->slow) judge_slow(times);
}

static void merge(histogram_t* into, const histogram_t* from) {
  for (size_t i = 0; i < BUCKETS; i++) into->counts[i] += from->counts[i];
  into->total += from->total;
  into->alone += from->alone;
  if (from->worst > into->worst) into->worst = from->worst;
}

static size_t draw(bench_rng_t* rng) {
  size_t base = (size_t)16 << bench_below(rng, LARGEST_SHIFT + 1);
  return base + bench_below(rng, base);
}

static void work(size_t index, void* context) {
  options_t* o = (options_t*)context;
  bench_rng_t rng = bench_rng(index);
  slot_t** slots = (slot_t**)bench_need(calloc(o->live, sizeof *slots), o->live);
  histogram_t* times = (histogram_t*)bench_need(calloc(2, sizeof *times), sizeof *times);
  for (size_t n = 0; n < o->calls; n++) {
    size_t i = bench_below(&rng, o->live);
    slot_t* slot = slots[i];
    if (slot != NULL && o->threads > 1 && n % 16 == 0) {
      slot = atomic_exchange(&o->mail[bench_below(&rng, MAILBOXES)], slot);
    }
    if (slot != NULL) {
      timed_free(o, &times[1], slot, slot->size);
    } else {
      slot = (slot_t*)bench_need(malloc(sizeof *slot), sizeof *slot);
    }
    slot->size = draw(&rng);
    uint64_t start = ticks();
    slot->block = malloc(slot->size);
    const uint64_t duration = since(o, start);
    count(&times[0], duration);
    if (duration > o->slow) judge_slow(&times[0]);
    if (n % LOOK == 0) events_seen = system_events();
    bench_need(slot->block, slot->size);
    bench_stamp(slot->block, slot->size, slot->size);
    slots[i] = slot;
  }
  for (size_t i = 0; i < o->live; i++) {
    if (slots[i] == NULL) continue;
    timed_free(o, &times[1], slots[i], slots[i]->size);
    free(slots[i]);
  }
  pthread_mutex_lock(&o->lock);
  merge(&o->malloc_times, &times[0]);
  merge(&o->free_times, &times[1]);
  pthread_mutex_unlock(&o->lock);
  free(times);
  free(slots);
}

static uint64_t measure_overhead(void) {
  uint64_t least = UINT64_MAX;
  for (int n = 0; n < 100000; n++) {
    uint64_t start = ticks(), duration = ticks() - start;
    if (duration < least) least = duration;
  }
  return least;
}

static void print(const char* name, const histogram_t* histogram, double per_nanosecond) {
  static const struct {
    const char* label;
    double share;
  } points[] = {{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999},
                {"p99.999", 0.99999}};
  for (size_t p = 0; p < sizeof points / sizeof points[0]; p++) {
    uint64_t sum = 0;
    size_t bucket = 0;
    while (bucket < BUCKETS - 1) {
      sum += histogram->counts[bucket];
      if ((double)sum >= points[p].share * (double)histogram->total) break;
      bucket++;
    }
    printf("figure %s-%s %.1f ns\n", name, points[p].label,
           (double)bucket_end(bucket) / per_nanosecond);
  }
  printf("figure %s-worst %.1f ns\n", name, (double)histogram->worst / per_nanosecond);
  printf("figure %s-alone %llu calls\n", name, (unsigned long long)histogram->alone);
}

int main(int argc, char** argv) {
  static options_t o;
  o.threads = bench_arg(argc, argv, 1, 1);
  o.calls = bench_arg(argc, argv, 2, 5000000);
  o.live = bench_arg(argc, argv, 3, 8192);
  if (o.live == 0) bench_fail("arguments out of range");
  pthread_mutex_init(&o.lock, NULL);
  o.overhead = measure_overhead();
  uint64_t start_ns = nanoseconds(), start = ticks();
  while (nanoseconds() - start_ns < 1000000) {}
  o.slow = (ticks() - start) * SLOW_NANOSECONDS / (nanoseconds() - start_ns);
  bench_threads(o.threads, work, &o);
  double per_nanosecond = (double)(ticks() - start) / (double)(nanoseconds() - start_ns);
  for (size_t i = 0; i < MAILBOXES; i++) {
    slot_t* slot = atomic_exchange(&o.mail[i], NULL);
    if (slot == NULL) continue;
    timed_free(&o, &o.free_times, slot, slot->size);
    free(slot);
  }
  if (o.malloc_times.total != o.free_times.total) bench_fail("blocks were lost");
  printf("latency: %zu threads, %zu calls of each kind\n", o.threads, o.calls);
  print("malloc", &o.malloc_times, per_nanosecond);
  print("free", &o.free_times, per_nanosecond);
  return 0;
}
