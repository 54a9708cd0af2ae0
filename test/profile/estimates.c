// SPDX-License-Identifier: MIT
// What the profiler estimates is what was allocated: for loads whose truth is known, over many runs
// with other seeds, the mean is the truth, and as many runs are as near to it as theory says. Two
// samplers that are wrong, each in a way that others had, fail the same check.
//
//   estimates [RUNS]
#include <math.h>
#include <mimalloc-prof.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)
#define THREADS 64

static int failures;

// ---- truth -------------------------------------------------------------------------------------

// What was allocated, and the variance of its estimate: of a block of S bytes, which is sampled
// with probability p and then counts S/p, that is S^2 (1 - p) / p.
typedef struct truth {
  double objects, bytes;
  double objects_variance, bytes_variance;
  double live, live_variance;
} truth_t;

static size_t rate;

static double share_of(size_t size) { return -expm1(-(double)size / (double)rate); }

static void add_truth(truth_t* t, size_t size) {
  const double p = share_of(size), rest = (1 - p) / p;
  t->objects += 1;
  t->bytes += (double)size;
  t->objects_variance += rest;
  t->bytes_variance += (double)size * (double)size * rest;
}

static void add_live(truth_t* t, size_t size, size_t sampled_as) {
  const double p = share_of(sampled_as);
  t->live += (double)size;
  t->live_variance += (double)size * (double)size * (1 - p) / p;
}

// ---- loads -------------------------------------------------------------------------------------

static uint32_t next_random(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void churn(truth_t* t, size_t size, int count) {
  for (int i = 0; i < count; i++) {
    mi_free(mi_malloc(size));
    add_truth(t, size);
  }
}

static void load_one_size(truth_t* t) { churn(t, 48, 40000); }
static void load_bytes(truth_t* t) { churn(t, 1, 300000); }
static void load_zeroed(truth_t* t) {
  for (int i = 0; i < 40000; i++) {
    const size_t size = (i % 2 == 0 ? 64 : 200);
    mi_free(mi_calloc(1, size));
    add_truth(t, size);
  }
}

// A sampler of every so many bytes would see one of these sizes only.
static void load_periodic(truth_t* t) {
  static const size_t sizes[] = {24, 1000};
  for (int i = 0; i < 16000; i++) {
    mi_free(mi_malloc(sizes[i % 2]));
    add_truth(t, sizes[i % 2]);
  }
}

static void load_mixed(truth_t* t) {
  uint32_t random = 7;
  void* blocks[64] = {NULL};
  for (int i = 0; i < 20000; i++) {
    const size_t size = 1 + (next_random(&random) % (i % 8 == 0 ? 20000 : 900));
    void** const place = &blocks[next_random(&random) % 64];
    mi_free(*place);
    *place = mi_malloc(size);
    add_truth(t, size);
  }
  for (int i = 0; i < 64; i++) mi_free(blocks[i]);
}

static void load_large(truth_t* t) {
  static const size_t sizes[] = {100 * 1000, 1 * MIB, 64 * MIB, GIB};
  for (int i = 0; i < 60; i++) {
    const size_t size = sizes[i % (sizeof(size_t) > 4 ? 4 : 3)];
    mi_free(mi_malloc(size));
    add_truth(t, size);
  }
}

static void load_all_sizes(truth_t* t) {
  const int last = (sizeof(size_t) > 4 ? 30 : 26);
  for (int shift = 0; shift <= last; shift++) {
    for (int i = 0; i < (shift < 12 ? 1000 : shift < 20 ? 50 : 2); i++) {
      mi_free(mi_malloc((size_t)1 << shift));
      add_truth(t, (size_t)1 << shift);
    }
  }
}

static void load_aligned(truth_t* t) {
  for (int i = 0; i < 30000; i++) {
    const size_t size = (i % 3 == 0 ? 4096 : 128);
    mi_free(mi_malloc_aligned(size, size));
    add_truth(t, size);
  }
  for (int i = 0; i < 50; i++) {
    mi_free(mi_malloc_aligned(100 * 1000, 1 << 17));
    add_truth(t, 100 * 1000);
  }
}

static void load_heap(truth_t* t) {
  mi_heap_t* const heap = mi_heap_new();
  for (int i = 0; i < 20000; i++) {
    void* const p = mi_heap_malloc(heap, 100);
    add_truth(t, 100);
    if (i % 2 == 0) mi_free(p);
  }
  mi_heap_destroy(heap);
}

static void load_deleted_heap(truth_t* t) {
  static void* blocks[20000];
  mi_heap_t* const heap = mi_heap_new();
  for (int i = 0; i < 20000; i++) {
    blocks[i] = mi_heap_malloc(heap, 100);
    add_truth(t, 100);
    if (i >= 10000) add_live(t, 100, 100);
  }
  mi_heap_delete(heap);
  for (int i = 0; i < 10000; i++) mi_free(blocks[i]);
}

#define KEPT 30000
static void* kept[KEPT];

static void load_kept(truth_t* t) {
  uint32_t random = 3;
  for (int i = 0; i < KEPT; i++) {
    const size_t size = 1 + next_random(&random) % 500;
    kept[i] = mi_malloc(size);
    add_truth(t, size);
    if (i % 2 == 0) add_live(t, size, size);
    if (i % 2 == 1) mi_free(kept[i]);
    if (i % 2 == 1) kept[i] = NULL;
  }
}

// Blocks that grow and shrink; what stays where it is keeps its chance to have been sampled.
static void load_realloc(truth_t* t) {
  for (int i = 0; i < 4000; i++) {
    char* p = (char*)mi_malloc(16);
    size_t size = 16;
    for (; size < 3000; size += size / 2) p = (char*)mi_realloc(p, size + size / 2);
    p = (char*)mi_realloc(p, size * 3 / 4);
    kept[i] = p;
    add_live(t, size * 3 / 4, size);
  }
}

static void load_realloc_large(truth_t* t) {
  for (int i = 0; i < 16; i++) {
    char* p = (char*)mi_malloc(100 * 1000);
    for (size_t size = 200 * 1000; size < 3 * MIB; size *= 2) p = (char*)mi_realloc(p, size);
    kept[i] = mi_realloc(p, 150 * 1000);
    add_live(t, 150 * 1000, 150 * 1000);
  }
}

static void* run_thread(void* arg) {
  void** const blocks = (void**)arg;
  for (int i = 0; i < 10; i++) blocks[i] = mi_malloc(2000);
  return NULL;
}

// Threads that live for ten allocations, whose blocks others free.
static void load_threads(truth_t* t) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    if (pthread_create(&threads[i], NULL, run_thread, &kept[10 * i]) != 0) abort();
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 10 * THREADS; i++) {
    add_truth(t, 2000);
    mi_free(kept[i]);
    kept[i] = NULL;
  }
}

static void load_operators(truth_t* t) {
  for (int i = 0; i < 20000; i++) {
    mi_free(mi_new(80));
    mi_free_size(mi_new_nothrow(300), 300);
    mi_free(mi_new_aligned(128, 64));
    add_truth(t, 80);
    add_truth(t, 300);
    add_truth(t, 128);
  }
}

typedef struct load {
  const char* name;
  void (*run)(truth_t* truth);
  size_t rate;
  bool counts_all;  // else only what is live at the end
} load_t;

static const load_t loads[] = {
    {"one size", load_one_size, 2048, true},
    {"bytes", load_bytes, 512, true},
    {"zeroed", load_zeroed, 4096, true},
    {"periodic", load_periodic, 8192, true},
    {"mixed", load_mixed, 16 * KIB, true},
    {"large", load_large, 512 * KIB, true},
    {"1 B to 1 GiB", load_all_sizes, 64, true},
    {"aligned", load_aligned, 32 * KIB, true},
    {"a heap, destroyed", load_heap, 2048, true},
    {"a heap, deleted", load_deleted_heap, 2048, true},
    {"kept", load_kept, 4096, true},
    {"realloc", load_realloc, 16 * KIB, false},
    {"realloc of large blocks", load_realloc_large, 128 * KIB, false},
    {"threads", load_threads, 2048, true},
    {"operators", load_operators, 8192, true},
};

// ---- estimates ---------------------------------------------------------------------------------

typedef struct sums {
  double objects, bytes, live;
} sums_t;

static bool mi_cdecl add_stack(const mi_prof_stack_t* stack, void* arg) {
  sums_t* const s = (sums_t*)arg;
  s->objects += (double)stack->objects_allocated;
  s->bytes += (double)stack->bytes_allocated;
  s->live += (double)stack->bytes_live;
  return true;
}

// Of many runs: the mean, and how many are within the interval that holds 95 %.
typedef struct tally {
  double truth, variance;
  double sum;
  int runs, near;
} tally_t;

static void tally(tally_t* t, double estimate, double truth, double variance) {
  // Counted in whole numbers for each stack.
  const double near = 1.96 * sqrt(variance) + 1;
  t->truth = truth;
  t->variance = variance;
  t->sum += estimate;
  t->runs++;
  t->near += (fabs(estimate - truth) <= near);
}

// Whether the runs agree with the theory. The mean may be off by as much as happens once in a
// million times, and has to be within 1 % where that is less.
static bool agrees(const tally_t* t, const char* name, const char* what, bool says) {
  const double mean = t->sum / t->runs, error = mean - t->truth;
  const double most = 5 * sqrt(t->variance / t->runs) + 1e-4 * t->truth + 1;
  const double expected = 0.95 * t->runs, spread = sqrt(expected * 0.05);
  const bool ok = fabs(error) <= most && t->near >= expected - 5 * spread - 1;
  if (says) {
    printf("%-24s %-8s truth %14.0f, mean %+7.3f %% (may be %.3f), %5.1f %% in the interval%s\n",
           name, what, t->truth, 100 * error / t->truth, 100 * most / t->truth,
           100.0 * t->near / t->runs, ok ? "" : ": WRONG");
  }
  return ok;
}

static void expect(bool ok, const char* what) {
  if (ok) return;
  printf("FAIL: %s\n", what);
  failures++;
}

static sums_t estimate(void) {
  sums_t sums = {0, 0, 0};
  expect(mi_prof_visit(MI_PROF_LIVE, add_stack, &sums), "the visit ends");
  return sums;
}

static void run_load(const load_t* load, int runs) {
  tally_t objects = {0, 0, 0, 0, 0}, bytes = objects, live = objects, unweighted = objects;
  rate = load->rate;
  expect(mi_prof_start(rate), "the profiler starts");
  for (int run = 0; run < runs; run++) {
    truth_t truth = {0, 0, 0, 0, 0, 0};
    mi_prof_reset();
    load->run(&truth);
    const sums_t sums = estimate();
    tally(&objects, sums.objects, truth.objects, truth.objects_variance);
    tally(&bytes, sums.bytes, truth.bytes, truth.bytes_variance);
    tally(&live, sums.live, truth.live, truth.live_variance);
    mi_prof_stats_t stats;
    mi_prof_stats_get(&stats);
    tally(&unweighted, (double)stats.samples * truth.bytes / truth.objects, truth.bytes,
          truth.bytes_variance);
    for (int i = 0; i < KEPT; i++) {
      mi_free(kept[i]);
      kept[i] = NULL;
    }
    expect(estimate().live == 0 || load->run == load_deleted_heap, "what is freed is not live");
  }
  mi_prof_stop();
  expect(!load->counts_all || agrees(&objects, load->name, "objects", true), load->name);
  expect(!load->counts_all || agrees(&bytes, load->name, "bytes", true), load->name);
  expect(live.truth == 0 ? live.sum == 0 : agrees(&live, load->name, "live", true), load->name);
  // Samples that count what they are, and not what they stand for.
  if (load->run == load_one_size || load->run == load_zeroed) {
    expect(!agrees(&unweighted, load->name, "", false), "a sampler without weights passes");
  }
}

// A sampler of every R-th byte, otherwise right, on the periodic load.
static void run_fixed_distances(int runs) {
  static const size_t sizes[] = {24, 1000};
  tally_t objects = {0, 0, 0, 0, 0};
  rate = 8192;
  for (int run = 0; run < runs; run++) {
    truth_t truth = {0, 0, 0, 0, 0, 0};
    double sum = 0;
    long until = (long)rate;
    for (int i = 0; i < 16000; i++) {
      const size_t size = sizes[i % 2];
      add_truth(&truth, size);
      if ((until -= (long)size) > 0) continue;
      until += (long)rate;
      sum += 1 / share_of(size);
    }
    tally(&objects, sum, truth.objects, truth.objects_variance);
  }
  expect(!agrees(&objects, "fixed distances", "", false), "a sampler of fixed distances passes");
}

int main(int argc, char** argv) {
  const int runs = (argc > 1 ? atoi(argv[1]) : 40);
  for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) run_load(&loads[i], runs);
  run_fixed_distances(runs);
  return failures == 0 ? 0 : 1;
}
