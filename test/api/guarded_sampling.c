// SPDX-License-Identifier: MIT
// Which allocations are sampled: each with the same chance, whatever call it is, also where a
// program uses one block over and over.
#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api_check.h"

// At so many rounds the number of samples is 100 on average, with a deviation of 6.
enum { RATE = 4000, ROUNDS = 400000, LEAST = 70, MOST = 130, THREADS = 4 };

static int64_t guarded_so_far(void) {
  mi_stats_t stats;
  mi_stats_init(&stats);
  CHECK(mi_stats_get(&stats));
  return stats.malloc_guarded_count.total;
}

// ---- one block over and over -------------------------------------------------------------------

typedef void* (*alloc_fn)(void);

static void* by_malloc(void) { return mi_malloc(48); }
static void* by_malloc_of_4k(void) { return mi_malloc(4096); }
static void* by_malloc_of_100k(void) { return mi_malloc(100000); }
static void* by_malloc_of_300k(void) { return mi_malloc(300000); }
static void* by_calloc(void) { return mi_calloc(3, 16); }
static void* by_calloc_of_3k(void) { return mi_calloc(3, 1024); }
static void* by_realloc(void) { return mi_realloc(NULL, 48); }
static void* by_aligned(void) { return mi_malloc_aligned(80, 64); }
static void* by_zalloc_aligned(void) { return mi_zalloc_aligned(1000, 256); }
static void* by_aligned_of_300k(void) { return mi_malloc_aligned(300000, 4096); }
static void* by_new(void) { return mi_new(48); }
static void* by_new_nothrow(void) { return mi_new_nothrow(48); }
static void* by_strdup(void) { return mi_strdup("a text of some bytes"); }
static void* by_heap(void) { return mi_heap_malloc(mi_heap_main(), 48); }
static void* by_theap(void) { return mi_theap_malloc(mi_theap_get_default(), 48); }

static const struct {
  const char* name;
  alloc_fn alloc;
  long faster;  // debug builds fill blocks: of large ones fewer rounds at a higher rate
} ways[] = {
    {"malloc", by_malloc, 1},
    {"malloc of 4 KiB", by_malloc_of_4k, 10},
    {"malloc of 100 KB", by_malloc_of_100k, 200},
    {"malloc of 300 KB", by_malloc_of_300k, 200},
    {"calloc", by_calloc, 1},
    {"calloc of 3 KiB", by_calloc_of_3k, 10},
    {"realloc", by_realloc, 1},
    {"malloc_aligned", by_aligned, 1},
    {"zalloc_aligned", by_zalloc_aligned, 1},
    {"malloc_aligned of 300 KB", by_aligned_of_300k, 200},
    {"new", by_new, 1},
    {"new_nothrow", by_new_nothrow, 1},
    {"strdup", by_strdup, 1},
    {"heap_malloc", by_heap, 1},
    {"theap_malloc", by_theap, 1},
};

static int64_t samples_of(alloc_fn alloc, size_t rounds) {
  const int64_t before = guarded_so_far();
  for (size_t i = 0; i < rounds; i++) {
    char* const p = (char*)alloc();
    CHECK_ROW(p != NULL, i);
    p[0] = (char)i;
    mi_free(p);
  }
  return guarded_so_far() - before;
}

static bool is_as_expected(const char* name, int64_t samples) {
  if (samples >= LEAST && samples <= MOST) return true;
  fprintf(stderr, "%s: %lld samples\n", name, (long long)samples);
  return false;
}

static void test_each_way(void) {
  for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
    mi_option_set(mi_option_guarded_sample_rate, RATE / ways[i].faster);
    const size_t rounds = ROUNDS / (size_t)ways[i].faster;
    CHECK_ROW(is_as_expected(ways[i].name, samples_of(ways[i].alloc, rounds)), i);
  }
  mi_option_set(mi_option_guarded_sample_rate, RATE);
}

// A block that is resized beyond its place is allocated anew.
static void test_growth(void) {
  const int64_t before = guarded_so_far();
  for (size_t i = 0; i < ROUNDS / 2; i++) {
    char* p = (char*)mi_malloc(16);
    memcpy(p, "fifteen letters", 16);
    p = (char*)mi_realloc(p, 700);
    CHECK_ROW(strcmp(p, "fifteen letters") == 0, i);
    mi_free(p);
  }
  CHECK(is_as_expected("realloc to more", guarded_so_far() - before));
}

// Sizes that take turns are each sampled as often, however samples and turns fall.
static void test_turns(void) {
  static const size_t sizes[] = {37, 41, 990};
  int64_t samples[3] = {0, 0, 0};
  for (size_t i = 0; i < 3 * ROUNDS; i++) {
    char* const p = (char*)mi_malloc(sizes[i % 3]);
    samples[i % 3] += (mi_usable_size(p) == sizes[i % 3]);  // of others it is more
    mi_free(p);
  }
  const bool is_exact = (samples[0] > ROUNDS / 2);  // of all blocks, in builds with padding
  for (size_t i = 0; i < 3; i++) CHECK_ROW(is_exact || is_as_expected("turns", samples[i]), i);
}

// ---- switching ---------------------------------------------------------------------------------

static void test_off(void) {
  CHECK(samples_of(by_malloc, ROUNDS) == 0);
  CHECK(samples_of(by_calloc_of_3k, ROUNDS / 10) == 0);
}

static void test_switches(void) {
  mi_option_set(mi_option_guarded_sample_rate, 0);
  CHECK(samples_of(by_malloc, ROUNDS) == 0);
  mi_option_set(mi_option_guarded_sample_rate, RATE / 10);
  const int64_t more = samples_of(by_malloc, ROUNDS);
  CHECK(more > 800 && more < 1200);
  // What was drawn for a rate that no longer holds does not count.
  mi_option_set(mi_option_guarded_sample_rate, 1L << 30);
  CHECK(samples_of(by_malloc, 1000) == 0);
  mi_option_set(mi_option_guarded_sample_rate, RATE);
  CHECK(is_as_expected("on again", samples_of(by_malloc, ROUNDS)));
}

static void test_own_rate(void) {
  mi_theap_t* const theap = mi_theap_get_default();
  mi_theap_guarded_set_sample_rate(theap, 0, 1);
  CHECK(samples_of(by_malloc, ROUNDS) == 0);
  mi_theap_guarded_set_sample_rate(theap, 1, 1);
  CHECK(samples_of(by_malloc, 1000) == 1000 && samples_of(by_calloc_of_3k, 1000) == 1000);
  mi_theap_guarded_set_size_bound(theap, 40, 60);
  CHECK(samples_of(by_malloc, 1000) == 1000 && samples_of(by_calloc_of_3k, 1000) == 0);
  mi_theap_guarded_set_size_bound(theap, 0, SIZE_MAX);
  mi_theap_guarded_set_sample_rate(theap, RATE, 1);
  CHECK(is_as_expected("own rate", samples_of(by_malloc, ROUNDS)));
}

// Blocks of other heaps are not sampled, and the main heap's are again when it is the default.
static void test_other_default(void) {
  mi_heap_t* const heap = mi_heap_new();
  CHECK(heap != NULL);
  mi_theap_t* const before = mi_theap_set_default(mi_heap_theap(heap));
  CHECK(samples_of(by_malloc, ROUNDS) == 0);
  CHECK(mi_theap_set_default(before) == mi_heap_theap(heap));
  CHECK(is_as_expected("the former default", samples_of(by_malloc, ROUNDS)));
  mi_heap_destroy(heap);
  CHECK(is_as_expected("without the other", samples_of(by_malloc, ROUNDS)));
}

// ---- threads and processes ---------------------------------------------------------------------

static void* run_rounds(void* rounds) {
  for (size_t i = 0; i < *(size_t*)rounds; i++) {
    char* const p = (char*)mi_malloc(48);
    CHECK_ROW(p != NULL, i);
    p[0] = 1;
    mi_free(p);
  }
  return NULL;
}

static void test_threads(void) {
  size_t rounds = ROUNDS / THREADS;
  pthread_t threads[THREADS];
  const int64_t before = guarded_so_far();
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&threads[i], NULL, run_rounds, &rounds) == 0);
  }
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(is_as_expected("threads", guarded_so_far() - before));
}

typedef struct switched {
  pthread_barrier_t barrier;
  int64_t off, on;
} switched_t;

static void* follow_switches(void* arg) {
  switched_t* const s = (switched_t*)arg;
  mi_free(mi_malloc(48));
  pthread_barrier_wait(&s->barrier);  // the main thread switches off
  pthread_barrier_wait(&s->barrier);
  s->off = samples_of(by_malloc, ROUNDS);
  pthread_barrier_wait(&s->barrier);  // and on
  pthread_barrier_wait(&s->barrier);
  mi_free(mi_malloc((size_t)1 << 20));  // a slow one
  s->on = samples_of(by_malloc, ROUNDS);
  return NULL;
}

static void test_switched_elsewhere(void) {
  switched_t s;
  pthread_t thread;
  CHECK(pthread_barrier_init(&s.barrier, NULL, 2) == 0);
  CHECK(pthread_create(&thread, NULL, follow_switches, &s) == 0);
  pthread_barrier_wait(&s.barrier);
  mi_option_set(mi_option_guarded_sample_rate, 0);
  pthread_barrier_wait(&s.barrier);
  pthread_barrier_wait(&s.barrier);
  mi_option_set(mi_option_guarded_sample_rate, RATE);
  pthread_barrier_wait(&s.barrier);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(s.off == 0);
  CHECK(is_as_expected("on, by another thread", s.on));
  pthread_barrier_destroy(&s.barrier);
}

static void test_fork(void) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(is_as_expected("child", samples_of(by_malloc, ROUNDS)) ? 0 : 1);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(is_as_expected("parent", samples_of(by_malloc, ROUNDS)));
}

// ---- what is sampled works as any block --------------------------------------------------------

static void test_contents(void) {
  enum { LIVE = 64 };
  static uint8_t* blocks[LIVE];
  static size_t sizes[LIVE];
  uint32_t random = 1;
  mi_option_set(mi_option_guarded_sample_rate, 3);
  for (size_t n = 0; n < 30000; n++) {
    random = random * 1664525u + 1013904223u;
    const size_t i = random >> 26;
    const size_t size = 1 + (random >> 8) % (n % 16 == 0 ? 100000 : 700);
    for (size_t k = 0; k < sizes[i]; k++) CHECK_ROW(blocks[i][k] == (uint8_t)(i + 1), k);
    const bool grows = (random >> 7) % 4 == 0;
    if (grows) {
      blocks[i] = (uint8_t*)mi_realloc(blocks[i], size);
      const size_t kept = size < sizes[i] ? size : sizes[i];
      for (size_t k = 0; k < kept; k++) CHECK_ROW(blocks[i][k] == (uint8_t)(i + 1), k);
    } else {
      mi_free(blocks[i]);
      blocks[i] = (uint8_t*)mi_calloc(1, size);
      for (size_t k = 0; k < size; k++) CHECK_ROW(blocks[i][k] == 0, k);
    }
    CHECK_ROW((uintptr_t)blocks[i] % 16 == 0 && mi_usable_size(blocks[i]) >= size, n);
    memset(blocks[i], (int)i + 1, size);
    sizes[i] = size;
  }
  for (size_t i = 0; i < LIVE; i++) mi_free(blocks[i]);
  mi_option_set(mi_option_guarded_sample_rate, RATE);
}

static bool count_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                        void* arg) {
  (void)heap;
  (void)area;
  *(size_t*)arg += (block != NULL && size >= 700 && size < 800);
  return true;
}

// Blocks that a sampled thread has not given out are free ones for everybody.
static void test_visit(void) {
  static void* blocks[300];
  for (size_t n = 0; n < 300; n++) blocks[n] = mi_malloc(700);
  for (size_t left = 300; left > 0; left -= 100) {
    size_t seen = 0;
    CHECK(mi_heap_visit_blocks(mi_heap_main(), true, count_block, &seen));
    CHECK_ROW(seen == left, seen);
    for (size_t n = left - 100; n < left; n++) mi_free(blocks[n]);
  }
}

// ---- alignment ---------------------------------------------------------------------------------

static void check_aligned(void* p, size_t align, size_t size) {
  CHECK(p != NULL && (uintptr_t)p % align == 0 && mi_usable_size(p) >= size);
  mi_free_size_aligned(p, size, align);
}

// What malloc's blocks give up to end where their memory does, those of a said alignment keep.
static void test_precise(void) {
  mi_option_set(mi_option_guarded_sample_rate, 1);
  mi_option_set(mi_option_guarded_precise, 1);
  mi_free(mi_malloc(1));
  const int64_t before = guarded_so_far();
  for (size_t size = 1; size < 70; size++) {
    uint8_t* const plain = (uint8_t*)mi_malloc(size);
    CHECK(plain != NULL && mi_usable_size(plain) == size);
    mi_free(plain);
    for (size_t align = 1; align <= 256; align *= 2) {
      check_aligned(mi_malloc_aligned(size, align), align, size);
      check_aligned(mi_zalloc_aligned(size, align), align, size);
      check_aligned(mi_heap_malloc_aligned(mi_heap_main(), size, align), align, size);
      check_aligned(mi_realloc_aligned(mi_malloc_aligned(size + 900, align), size, align), align, size);
      check_aligned(mi_malloc_aligned(size + 600000, align), align, size + 600000);
      void* const small = mi_malloc_aligned(100, align);
      check_aligned(mi_realloc_aligned(small, size + 600000, align), align, size + 600000);
    }
  }
  CHECK(guarded_so_far() - before > 69 * 9 * 5);
  mi_option_set(mi_option_guarded_precise, 0);
  mi_option_set(mi_option_guarded_sample_rate, RATE);
}

int main(void) {
  test_off();
  mi_option_set(mi_option_guarded_sample_seed, 20);
  mi_option_set(mi_option_guarded_sample_rate, RATE);
  test_each_way();
  test_growth();
  test_turns();
  test_switches();
  test_other_default();
  test_threads();
  test_switched_elsewhere();
  test_fork();
  test_contents();
  test_visit();
  test_precise();
  test_own_rate();
  return 0;
}
