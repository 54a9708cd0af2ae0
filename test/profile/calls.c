// SPDX-License-Identifier: MIT
// The calls of the profiler: what each kind of profile counts, starting and stopping, threads, forks,
// dumps at once, and what wrong arguments get.
#include <mimalloc-prof.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

#define BLOCK ((size_t)4 << 20)  // every one is sampled at this rate
#define RATE ((size_t)64 << 10)

typedef struct sums {
  int64_t allocated, bytes, live, live_bytes;
  size_t stacks;
} sums_t;

static bool mi_cdecl add_stack(const mi_prof_stack_t* stack, void* arg) {
  sums_t* const s = (sums_t*)arg;
  s->allocated += stack->objects_allocated;
  s->bytes += stack->bytes_allocated;
  s->live += stack->objects_live;
  s->live_bytes += stack->bytes_live;
  s->stacks++;
  mi_free(mi_malloc(BLOCK));  // not sampled
  return true;
}

static sums_t sums_of(mi_prof_kind_t kind) {
  sums_t s = {0, 0, 0, 0, 0};
  EXPECT(mi_prof_visit(kind, add_stack, &s));
  return s;
}

static bool mi_cdecl stop_at_once(const mi_prof_stack_t* stack, void* arg) {
  ++*(int*)arg;
  return stack == NULL;
}

// ---- what counts -------------------------------------------------------------------------------

static void test_kinds(void) {
  mi_prof_reset();
  void* const a = mi_malloc(BLOCK);
  void* const b = mi_zalloc(BLOCK);
  sums_t s = sums_of(MI_PROF_LIVE);
  EXPECT(s.allocated == 2 && s.live == 2 && s.live_bytes == 2 * (int64_t)BLOCK);
  EXPECT(s.stacks == 2);
  mi_prof_mark();
  mi_free(a);
  void* const c = mi_malloc(BLOCK);
  void* const d = mi_malloc(BLOCK);
  s = sums_of(MI_PROF_SINCE_MARK);
  EXPECT(s.allocated == 2 && s.live == 1 && s.live_bytes == (int64_t)BLOCK);
  mi_free(b);
  mi_free(c);
  mi_free(d);
  s = sums_of(MI_PROF_SINCE_MARK);
  EXPECT(s.allocated == 2 && s.live == -2);
  s = sums_of(MI_PROF_LIVE);
  EXPECT(s.allocated == 4 && s.live == 0 && s.live_bytes == 0);
  s = sums_of(MI_PROF_PEAK);
  EXPECT(s.live == 3 && s.live_bytes == 3 * (int64_t)BLOCK);
  mi_prof_stats_t stats;
  mi_prof_stats_get(&stats);
  EXPECT(stats.sample_rate == RATE && stats.samples == 4 && stats.samples_live == 0);
  EXPECT(stats.bytes_peak == 3 * BLOCK && stats.bytes_live == 0 && stats.samples_dropped == 0);
  EXPECT(stats.memory > 0 && stats.memory <= stats.memory_limit && stats.stacks >= 4);
  mi_prof_reset();
  s = sums_of(MI_PROF_LIVE);
  EXPECT(s.stacks == 0);
}

// In place or elsewhere, a block has one size at a time.
static void test_realloc(void) {
  mi_prof_reset();
  char* p = (char*)mi_malloc(BLOCK);
  p = (char*)mi_realloc(p, 3 * BLOCK);
  EXPECT(sums_of(MI_PROF_LIVE).live_bytes == 3 * (int64_t)BLOCK);
  p = (char*)mi_realloc(p, 2 * BLOCK);
  EXPECT(sums_of(MI_PROF_LIVE).live_bytes == 2 * (int64_t)BLOCK);
  p = (char*)mi_realloc(p, 9 * BLOCK);
  const sums_t s = sums_of(MI_PROF_LIVE);
  EXPECT(s.live == 1 && s.live_bytes == 9 * (int64_t)BLOCK);
  mi_free(p);
  EXPECT(sums_of(MI_PROF_LIVE).live == 0);
}

// A profiler that was stopped has no new sample, neither where nothing is sampled nor where only
// guards are.
static void test_realloc_when_off(void) {
  for (int has_guards = 0; has_guards < 2; has_guards++) {
    mi_prof_reset();
    char* p = (char*)mi_malloc((size_t)4 << 20);
    mi_prof_stop();
    if (has_guards) mi_theap_guarded_set_sample_rate(mi_theap_get_default(), (size_t)1 << 20, 1);
    p = (char*)mi_realloc(p, (size_t)6 << 20);
    p = (char*)mi_realloc(p, (size_t)5 << 20);
    EXPECT(p != NULL && sums_of(MI_PROF_LIVE).live <= 1);
    mi_free(p);
    EXPECT(sums_of(MI_PROF_LIVE).live == 0);
    if (has_guards) mi_theap_guarded_set_sample_rate(mi_theap_get_default(), 0, 1);
    EXPECT(mi_prof_start(RATE));
  }
}

static void test_heaps(void) {
  mi_prof_reset();
  mi_heap_t* const heap = mi_heap_new();
  for (int i = 0; i < 5; i++) EXPECT(mi_heap_malloc(heap, BLOCK) != NULL);
  EXPECT(sums_of(MI_PROF_LIVE).live == 5);
  mi_heap_destroy(heap);
  EXPECT(sums_of(MI_PROF_LIVE).live == 0);
}

// A sub-process takes its blocks with it, also those of its main heap.
static void* allocate_in(void* id) {
  mi_subproc_add_current_thread(*(mi_subproc_id_t*)id);
  for (int i = 0; i < 5; i++) EXPECT(mi_malloc(BLOCK >> (3 * (i % 2))) != NULL);
  return NULL;
}

static void test_subprocs(void) {
  pthread_t thread;
  mi_prof_reset();
  mi_subproc_id_t id = mi_subproc_new();
  EXPECT(pthread_create(&thread, NULL, &allocate_in, &id) == 0);
  pthread_join(thread, NULL);
  EXPECT(sums_of(MI_PROF_LIVE).live >= 3);
  mi_subproc_destroy(id);
  EXPECT(sums_of(MI_PROF_LIVE).live == 0);
}

static void test_small(void) {
  static void* blocks[20000];
  EXPECT(mi_prof_start(1000));
  mi_prof_reset();
  for (int i = 0; i < 20000; i++) {
    blocks[i] = mi_malloc(50);
    memset(blocks[i], i, 50);
    EXPECT(mi_usable_size(blocks[i]) >= 50 && mi_usable_size(blocks[i]) <= 64);
  }
  const sums_t s = sums_of(MI_PROF_LIVE);
  EXPECT(s.live > 15000 && s.live < 25000);
  for (int i = 0; i < 20000; i++) {
    const unsigned char* const p = (const unsigned char*)blocks[i];
    for (int k = 0; k < 50; k++) EXPECT(p[k] == (unsigned char)i);
    mi_free(blocks[i]);
  }
  EXPECT(sums_of(MI_PROF_LIVE).live == 0);
  EXPECT(mi_prof_start(RATE));
}

static void test_stop(void) {
  mi_prof_reset();
  void* const a = mi_malloc(BLOCK);
  EXPECT(mi_prof_is_enabled());
  mi_prof_stop();
  EXPECT(!mi_prof_is_enabled());
  void* const b = mi_malloc(BLOCK);
  EXPECT(sums_of(MI_PROF_LIVE).live == 1);
  mi_free(a);
  EXPECT(sums_of(MI_PROF_LIVE).live == 0);
  EXPECT(mi_prof_start(RATE) && mi_prof_start(RATE));
  mi_free(mi_malloc(BLOCK));
  EXPECT(sums_of(MI_PROF_LIVE).allocated == 2);
  mi_free(b);
}

// ---- threads and processes ---------------------------------------------------------------------

static void* free_it(void* p) {
  mi_free(p);
  return NULL;
}

static void* keep_one(void* arg) {
  *(void**)arg = mi_malloc(BLOCK);
  return NULL;
}

static char text[1 << 20];
static size_t length;

static void mi_cdecl take_text(void* arg, const char* buf, size_t len) {
  (void)arg;
  mi_free(mi_malloc(BLOCK));
  if (len < sizeof(text) - length) memcpy(text + length, buf, len);
  length += len;
}

static void test_threads(void) {
  pthread_t thread;
  void* p = NULL;
  mi_prof_reset();
  EXPECT(pthread_create(&thread, NULL, keep_one, &p) == 0 && pthread_join(thread, NULL) == 0);
  EXPECT(p != NULL && sums_of(MI_PROF_LIVE).live == 1);
  mi_free(p);
  EXPECT(sums_of(MI_PROF_LIVE).live == 0);
  p = mi_malloc(BLOCK);
  EXPECT(pthread_create(&thread, NULL, free_it, p) == 0 && pthread_join(thread, NULL) == 0);
  EXPECT(sums_of(MI_PROF_LIVE).live == 0);
  mi_free(mi_malloc(BLOCK));
  length = 0;
  EXPECT(mi_prof_write(MI_PROF_LIFETIMES, MI_PROF_PPROF, take_text, NULL) && length > 0);
  EXPECT(!mi_prof_visit(MI_PROF_LIFETIMES, add_stack, NULL));
}

// Up to 64 KiB are counted ahead: so late at the most a thread follows what another one changes.
static atomic_int step;

static void* follow(void* arg) {
  for (int i = 0; i < 10; i++) mi_free(mi_malloc(64));
  atomic_store(&step, 1);
  while (atomic_load(&step) != 2) sched_yield();
  for (size_t i = 0; i < ((size_t)64 << 10) / 64 + 100; i++) mi_free(mi_malloc(64));
  return arg;
}

static void test_follows(void) {
  pthread_t thread;
  EXPECT(mi_prof_start((size_t)1 << 30));
  mi_prof_reset();
  EXPECT(pthread_create(&thread, NULL, follow, NULL) == 0);
  while (atomic_load(&step) != 1) sched_yield();
  EXPECT(mi_prof_start(16));  // nearly every block of 64 bytes is a sample
  atomic_store(&step, 2);
  pthread_join(thread, NULL);
  EXPECT(sums_of(MI_PROF_LIVE).allocated >= 80);
  EXPECT(mi_prof_start(RATE));
}

// The child's profile is its own: what it inherits is not in it, nor is the free of that.
static void test_fork(void) {
  mi_prof_reset();
  void* const p = mi_malloc(BLOCK);
  const pid_t child = fork();
  if (child == 0) {
    failures = 0;
    EXPECT(sums_of(MI_PROF_LIVE).stacks == 0);
    mi_free(p);
    EXPECT(sums_of(MI_PROF_LIVE).stacks == 0);
    void* const q = mi_malloc(BLOCK);
    EXPECT(sums_of(MI_PROF_LIVE).live == 1);
    mi_free(q);
    mi_prof_stats_t stats;
    mi_prof_stats_get(&stats);
    EXPECT(stats.samples == 1 && stats.samples_live == 0 && stats.bytes_live == 0);
    fflush(stdout);
    _exit(failures != 0);
  }
  int status = 1;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  EXPECT(sums_of(MI_PROF_LIVE).live == 1);
  mi_free(p);
}

// ---- dumps -------------------------------------------------------------------------------------

static void test_writers(void) {
  mi_prof_reset();
  void* const p = mi_malloc(BLOCK);
  length = 0;
  EXPECT(mi_prof_dump_writer(take_text, NULL));
  static const char head[] = "heap_v2/65536\n  t*: 1: 4194304 [1: 4194304]\n@ ";
  EXPECT(length < sizeof(text) && strncmp(text, head, sizeof(head) - 1) == 0);
  length = 0;
  EXPECT(mi_prof_dump_proto_writer(take_text, NULL) && length > 0);
  length = 0;
  EXPECT(mi_prof_write(MI_PROF_PEAK, MI_PROF_PPROF_GZ, take_text, NULL));
  EXPECT((unsigned char)text[0] == 0x1F && (unsigned char)text[1] == 0x8B);
  length = 0;
  EXPECT(mi_prof_write(MI_PROF_LIVE, MI_PROF_FOLDED, take_text, NULL));
  text[length] = 0;
  EXPECT(strstr(text, " 4194304\n") != NULL);
  EXPECT(sums_of(MI_PROF_LIVE).allocated == 1);
  mi_free(p);
}

static void test_wrong_arguments(void) {
  int calls = 0;
  void* const p = mi_malloc(BLOCK);
  EXPECT(!mi_prof_write((mi_prof_kind_t)99, MI_PROF_PPROF, take_text, NULL));
  EXPECT(!mi_prof_write(MI_PROF_LIVE, (mi_prof_format_t)99, take_text, NULL));
  EXPECT(!mi_prof_write(MI_PROF_LIVE, MI_PROF_PPROF, NULL, NULL));
  EXPECT(!mi_prof_write_file((mi_prof_kind_t)-1, "/tmp/none"));
  EXPECT(!mi_prof_dump(NULL) && !mi_prof_dump_proto(NULL) && !mi_prof_dump(""));
  EXPECT(!mi_prof_dump("/nowhere/at/all.pb"));
  EXPECT(!mi_prof_visit(MI_PROF_LIVE, NULL, NULL));
  EXPECT(!mi_prof_visit(MI_PROF_LIVE, stop_at_once, &calls) && calls == 1);
  EXPECT(mi_prof_start(SIZE_MAX));
  mi_prof_stats_t stats;
  mi_prof_stats_get(&stats);
  EXPECT(stats.sample_rate == (size_t)1 << 30);
  mi_prof_stats_get(NULL);
  EXPECT(mi_prof_start(1));
  mi_free(mi_malloc(1));
  EXPECT(mi_prof_start(RATE));
  mi_free(p);
}

static char folder[] = "/tmp/mimalloc-calls-XXXXXX";
static volatile bool ends;

static void* dump_on(void* name) {
  pthread_cancel(pthread_self());  // no dump, which may be made in malloc, is where that happens
  for (int i = 0; i < 50; i++) EXPECT(mi_prof_dump((const char*)name));
  return NULL;
}

static void* sample_on(void* arg) {
  while (!ends) mi_free(mi_malloc(BLOCK / 8));
  return arg;
}

// Dumps of several threads, beside others that allocate; and one under way when the process ends.
static void test_at_once(void) {
  static char path[4][64];
  pthread_t threads[4], other;
  EXPECT(mkdtemp(folder) != NULL);
  EXPECT(pthread_create(&other, NULL, sample_on, NULL) == 0);
  for (int i = 0; i < 4; i++) {
    snprintf(path[i], sizeof(path[i]), "%s/%s", folder, i < 2 ? "same.pb.gz" : "%p-%n.heap");
    EXPECT(pthread_create(&threads[i], NULL, dump_on, path[i]) == 0);
  }
  for (int i = 0; i < 4; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
  ends = true;
  EXPECT(pthread_join(other, NULL) == 0);
  char command[160];
  snprintf(command, sizeof(command), "test $(ls %s | wc -l) = 101", folder);
  EXPECT(system(command) == 0);
  snprintf(command, sizeof(command), "gzip -t %s/same.pb.gz && rm -r %s", folder, folder);
  EXPECT(system(command) == 0);
}

#define SHARED 4096
static void* _Atomic shared[SHARED];

static void* churn(void* arg) {
  unsigned state = (unsigned)(uintptr_t)arg;
  while (!ends) {
    state = state * 1664525u + 1013904223u;
    void* const p = mi_malloc(16 + (state >> 8) % 3000);
    mi_free(atomic_exchange(&shared[(state >> 20) % SHARED], p));
  }
  return NULL;
}

// Pages are looked at while their owners use them, and others free into them.
static void test_pins_at_once(void) {
  pthread_t threads[3];
  ends = false;
  mi_option_set(mi_option_prof_pins, 1);
  EXPECT(mi_prof_start(3000));
  for (uintptr_t i = 0; i < 3; i++) {
    EXPECT(pthread_create(&threads[i], NULL, churn, (void*)(i + 1)) == 0);
  }
  for (int i = 0; i < 60; i++) {
    length = 0;
    EXPECT(mi_prof_write(MI_PROF_PINNED, MI_PROF_PPROF, take_text, NULL) && length > 0);
    if (i % 20 == 0) mi_collect(true);
  }
  ends = true;
  for (int i = 0; i < 3; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < SHARED; i++) mi_free(atomic_exchange(&shared[i], NULL));
  mi_option_set(mi_option_prof_pins, 0);
  EXPECT(mi_prof_start(RATE));
  EXPECT(sums_of(MI_PROF_LIVE).live == 0);
}

static void test_exit_while_dumping(void) {
  char path[] = "/tmp/mimalloc-exit-XXXXXX", command[200];
  EXPECT(mkdtemp(path) != NULL);
  for (int run = 0; run < 10; run++) {
    const pid_t child = fork();
    if (child == 0) {
      pthread_t thread;
      static char name[64];
      snprintf(name, sizeof(name), "%s/a.pb.gz", path);
      for (int i = 0; i < 2000; i++) (void)!mi_malloc(BLOCK / 64);
      if (pthread_create(&thread, NULL, dump_on, name) == 0) usleep((useconds_t)(run * 300));
      exit(0);
    }
    int status = 1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    snprintf(command, sizeof(command), "test ! -e %s/a.pb.gz || gzip -t %s/a.pb.gz", path, path);
    EXPECT(system(command) == 0);
  }
  snprintf(command, sizeof(command), "rm -r %s", path);
  EXPECT(system(command) == 0);
}

// Guards and profiles at a time: a block may be both.
static void test_with_guards(void) {
  mi_prof_reset();
  mi_option_set(mi_option_guarded_sample_rate, 2);
  void* blocks[16];
  for (int i = 0; i < 16; i++) blocks[i] = mi_malloc(BLOCK / 4);
  EXPECT(sums_of(MI_PROF_LIVE).live == 16);
  for (int i = 0; i < 16; i++) mi_free(blocks[i]);
  EXPECT(sums_of(MI_PROF_LIVE).live == 0);
  mi_option_set(mi_option_guarded_sample_rate, 0);
  mi_free(mi_malloc(BLOCK));
  EXPECT(sums_of(MI_PROF_LIVE).allocated == 17);
}

static void test_options(void) {
  mi_option_set(mi_option_prof, 0);
  EXPECT(!mi_prof_is_enabled());
  mi_option_set(mi_option_prof_rate, 12345);
  mi_option_set(mi_option_prof, 1);
  mi_prof_stats_t stats;
  mi_prof_stats_get(&stats);
  EXPECT(mi_prof_is_enabled() && stats.sample_rate == 12345);
  mi_option_set(mi_option_prof_rate, (long)RATE);
  mi_prof_stats_get(&stats);
  EXPECT(stats.sample_rate == RATE);
  mi_option_set(mi_option_prof, 0);
  mi_option_set(mi_option_prof_rate, 0);
  mi_option_set(mi_option_prof, 1);
  mi_prof_stats_get(&stats);
  EXPECT(stats.sample_rate == (size_t)512 << 10);
}

int main(void) {
  EXPECT(!mi_prof_is_enabled());
  mi_prof_stop();
  mi_prof_reset();
  mi_prof_mark();
  EXPECT(mi_prof_start(RATE));
  test_kinds();
  test_realloc();
  test_realloc_when_off();
  test_heaps();
  test_subprocs();
  test_small();
  test_stop();
  test_threads();
  test_follows();
  test_fork();
  test_writers();
  test_wrong_arguments();
  test_at_once();
  test_pins_at_once();
  test_exit_while_dumping();
  test_with_guards();
  test_options();
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
