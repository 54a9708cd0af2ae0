// SPDX-License-Identifier: MIT
// What calls cost beside many things: scale THING COUNT. Makes so many pages, threads, heaps and so
// on, then runs a few loops of calls, and prints "LOOP nanoseconds" for each: the time of a turn.
// Under callgrind each loop's instructions are in a dump of its own (see check_scale.py).
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

enum {
  WIDE = 4096,       // bytes of a block of which a page has sixteen
  PER_PAGE = 16,
  HUGE = 600 * 1024,
  SLICE = 64 * 1024,
  OTHERS = 350,     // pages that other threads leave for the loop of claiming frees
  TURNS = 200,
};

static void* volatile sink;

static void* must(void* p) {
  if (p != NULL) return p;
  fprintf(stderr, "scale: out of memory\n");
  exit(2);
}

static void run_thread(void* (*run)(void*), void* arg) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, arg) != 0 || pthread_join(thread, NULL) != 0) exit(2);
}

// ---- what there is many of ---------------------------------------------------------------------

// Pages of this thread of which one block is free.
static void make_pages(size_t count) {
  char** const first = must(mi_malloc(count * sizeof(char*)));
  for (size_t i = 0; i < count * PER_PAGE; i++) {
    char* const p = must(mi_malloc(WIDE));
    if (i % PER_PAGE == 0) first[i / PER_PAGE] = p;
  }
  for (size_t i = 0; i < count; i++) mi_free(first[i]);
}

// Full pages that stay with their thread.
static void make_full(size_t count) {
  mi_option_set(mi_option_page_full_retain, (long)count);
  for (size_t i = 0; i < count * PER_PAGE; i++) must(mi_malloc(WIDE));
}

static void* leave_pages(void* count) {
  make_pages(*(size_t*)count);
  return NULL;
}

// The same, left behind by a thread.
static void make_abandoned(size_t count) { run_thread(&leave_pages, &count); }

static mi_heap_t* last_heap;

static void make_heaps(size_t count) {
  for (size_t i = 0; i < count; i++) {
    last_heap = must(mi_heap_new());
    must(mi_heap_malloc(last_heap, 64));
  }
}

static void make_huge(size_t count) {
  for (size_t i = 0; i < count; i++) must(mi_malloc(HUGE));
}

static void make_blocks(size_t count) {
  for (size_t i = 0; i < count; i++) must(mi_malloc(64));
}

// Arenas, all in use but for a few slices each.
static void make_arenas(size_t count) {
  const size_t size = mi_arena_min_size();
  for (size_t i = 0; i < count; i++) {
    mi_arena_id_t id;
    if (mi_reserve_os_memory_ex(size, false, false, false, &id) != 0) exit(2);
    mi_heap_t* const heap = must(mi_heap_new_in_arena(id));
    must(mi_heap_malloc(heap, size - 8 * SLICE));
    must(mi_heap_malloc(heap, 64));
  }
}

static pthread_barrier_t all_here;

static void* wait_for_ever(void* arg) {
  sink = mi_malloc(64);
  pthread_barrier_wait(&all_here);
  for (;;) pause();
  return arg;
}

static pthread_key_t last_key;

// Allocates when the thread has ended for the library, which it tells by calling again.
static void allocate_late(void* turns) {
  if ((uintptr_t)turns < 4) pthread_setspecific(last_key, (void*)((uintptr_t)turns + 1));
  else sink = mi_malloc(64);
}

static void* wait_then_end(void* arg) {
  sink = mi_malloc(64);
  pthread_setspecific(last_key, (void*)1);
  pthread_barrier_wait(&all_here);
  return arg;
}

static pthread_t* start_threads(size_t count, void* (*run)(void*)) {
  pthread_t* const threads = must(mi_malloc(count * sizeof(pthread_t)));
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 64 * 1024);
  pthread_barrier_init(&all_here, NULL, (unsigned)count + 1);
  for (size_t i = 0; i < count; i++) {
    if (pthread_create(&threads[i], &attr, run, NULL) != 0) exit(2);
  }
  pthread_barrier_wait(&all_here);
  return threads;
}

static void make_threads(size_t count) { start_threads(count, &wait_for_ever); }

// Threads that ended, and allocated after that.
static void make_late(size_t count) {
  pthread_key_create(&last_key, &allocate_late);
  pthread_t* const threads = start_threads(count, &wait_then_end);
  for (size_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

// ---- loops -------------------------------------------------------------------------------------

static void* others[OTHERS];

static void* leave_others(void* arg) {
  for (size_t i = 0; i < OTHERS * PER_PAGE; i++) {
    void* const p = must(mi_malloc(WIDE));
    if (i % PER_PAGE == 0) others[i / PER_PAGE] = p;
  }
  return arg;
}

static void prepare_claims(void) { run_thread(&leave_others, NULL); }

// Each takes a page over that nobody owns.
static void claim(size_t turn) { mi_free(others[turn]); }

// Three pages of the size of which there are many, for good.
static void fill(size_t turn) {
  (void)turn;
  for (size_t i = 0; i < 3 * PER_PAGE; i++) sink = mi_malloc(WIDE);
}

static void pair(size_t turn) {
  (void)turn;
  mi_free(mi_malloc(48));
}

// A page's worth of a size that nobody else uses.
static void page(size_t turn) {
  void* blocks[PER_PAGE];
  const size_t size = 3000 - turn % 8;
  for (size_t i = 0; i < PER_PAGE; i++) blocks[i] = mi_malloc(size);
  for (size_t i = 0; i < PER_PAGE; i++) mi_free(blocks[i]);
}

// Several pages of the size of which there are many.
static void batch(size_t turn) {
  void* blocks[64];
  (void)turn;
  for (size_t i = 0; i < 64; i++) blocks[i] = mi_malloc(WIDE);
  for (size_t i = 0; i < 64; i++) mi_free(blocks[i]);
}

static void grow(size_t turn) {
  (void)turn;
  void* p = mi_calloc(1, 100);
  for (size_t size = 200; size < 100000; size *= 2) p = mi_realloc(p, size);
  mi_free(p);
}

static void huge(size_t turn) {
  (void)turn;
  void* const p = mi_malloc(HUGE);
  void* const q = mi_malloc(2 * HUGE);
  mi_free(p);
  mi_free(q);
}

static void* begin_and_end(void* arg) {
  sink = mi_malloc(64);
  if (last_heap != NULL) sink = mi_heap_malloc(last_heap, 64);
  return arg;
}

static void thread(size_t turn) {
  if (turn % 10 == 0) run_thread(&begin_and_end, NULL);
}

static void heap(size_t turn) {
  (void)turn;
  mi_heap_t* const fresh = mi_heap_new();
  for (int i = 0; i < 10; i++) sink = mi_heap_malloc(fresh, 64);
  mi_heap_destroy(fresh);
}

static void* free_it(void* p) {
  mi_free(p);
  return NULL;
}

// A block of this thread that another one frees; it is freed when that thread has ended.
static void hand_over(size_t turn) {
  if (turn % 10 == 0) run_thread(&free_it, mi_malloc(WIDE));
}

static const struct {
  const char* name;
  void (*turn)(size_t turn);
  void (*prepare)(void);
} loops[] = {
    {"fill", &fill, NULL},        {"pair", &pair, NULL},     {"claim", &claim, &prepare_claims},
    {"page", &page, NULL},        {"batch", &batch, NULL},   {"grow", &grow, NULL},
    {"huge", &huge, NULL},        {"thread", &thread, NULL}, {"heap", &heap, NULL},
    {"remote", &hand_over, NULL},
};

static uint64_t clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void run_loop(size_t index) {
  if (loops[index].prepare != NULL) loops[index].prepare();
  for (size_t i = 0; i < 100; i++) loops[index].turn(i);
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
  const uint64_t begin = clock_ns();
  for (size_t i = 100; i < 100 + TURNS; i++) loops[index].turn(i);
  const uint64_t end = clock_ns();
  CALLGRIND_DUMP_STATS_AT(loops[index].name);
  CALLGRIND_STOP_INSTRUMENTATION;
  printf("%s %.1f\n", loops[index].name, (double)(end - begin) / TURNS);
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*make)(size_t count);
  } things[] = {
      {"pages", &make_pages},     {"full", &make_full},     {"abandoned", &make_abandoned},
      {"heaps", &make_heaps},     {"huge", &make_huge},     {"blocks", &make_blocks},
      {"arenas", &make_arenas},   {"late", &make_late},     {"threads", &make_threads},
  };
  if (argc != 3) return 2;
  for (size_t i = 0; i < sizeof(things) / sizeof(things[0]); i++) {
    if (strcmp(argv[1], things[i].name) != 0) continue;
    things[i].make((size_t)atol(argv[2]));
    for (size_t n = 0; n < sizeof(loops) / sizeof(loops[0]); n++) run_loop(n);
    fflush(stdout);
    _Exit(0);
  }
  return 2;
}
