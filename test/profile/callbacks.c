// SPDX-License-Identifier: MIT
// A profiler of the program's own: what it is told of, and that its answers are kept to.
#include <mimalloc-prof.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

#define LARGE ((size_t)1 << 20)
#define MARK 0x5EED

// What belongs to a sampled block.
typedef struct mine {
  long double first;
  void* block;
  size_t size;
  int mark;
} mine_t;

static size_t distance = 4096;
static size_t told, freed, bytes_told, thresholds_missed;
static size_t last_size;
static uint8_t last_tag;

static size_t mi_cdecl on_alloc(void* user_data, void* ptr, size_t requested, size_t usable,
                                size_t threshold, size_t since, uint8_t tag) {
  mine_t* const mine = (mine_t*)user_data;
  EXPECT((uintptr_t)mine % sizeof(long double) == 0);
  EXPECT(mine->mark == 0 && mine->block == NULL && mine->first == 0);
  EXPECT(usable >= requested && requested > 0);
  if (threshold != 0 && (since < threshold || since - threshold >= requested)) thresholds_missed++;
  mine->first = 1;
  mine->block = ptr;
  mine->size = requested;
  mine->mark = MARK;
  told++;
  bytes_told += since;
  last_size = requested;
  last_tag = tag;
  mi_free(mi_malloc(LARGE));  // not sampled
  return distance;
}

static void mi_cdecl on_free(void* user_data, void* ptr) {
  mine_t* const mine = (mine_t*)user_data;
  EXPECT(mine->mark == MARK && mine->block == ptr);
  *(volatile char*)ptr = 1;  // it is still there
  memset(mine, 0, sizeof(*mine));
  freed++;
}

static char* before[2];  // sampled by the library's own profiler

static void test_refused(void) {
  EXPECT(!mi_profiler_enable(8, NULL, on_free));
  EXPECT(!mi_profiler_enable(8, on_alloc, NULL));
  EXPECT(!mi_profiler_enable((size_t)1 << 20, on_alloc, on_free));
  EXPECT(mi_prof_start(4096));
  EXPECT(!mi_profiler_enable(8, on_alloc, on_free));
  before[0] = (char*)mi_malloc(LARGE);
  before[1] = (char*)mi_malloc(LARGE);
  mi_prof_stop();
  EXPECT(told == 0 && freed == 0);
}

static atomic_int hand_over;  // 1: another thread is to do so, 2: it has

static void* hand_over_once(void* arg) {
  while (atomic_load(&hand_over) == 0) sched_yield();
  mi_prof_stop();
  EXPECT(mi_profiler_enable(sizeof(mine_t), on_alloc, on_free));
  atomic_store(&hand_over, 2);
  return arg;
}

static bool mi_cdecl commit_and_hand_over(bool commit, void* start, size_t size, bool* is_zero,
                                          void* arg) {
  (void)start, (void)size;
  if (commit && *(bool*)arg && atomic_load(&hand_over) == 0) {
    atomic_store(&hand_over, 1);
    while (atomic_load(&hand_over) != 2) sched_yield();
  }
  if (is_zero != NULL) *is_zero = commit;
  return true;
}

// While another thread is about to have a sample of the library's own profiler.
static void test_meanwhile(void) {
  static bool is_due = false;
  const size_t room = 64 * LARGE;
  mi_arena_id_t id;
  pthread_t thread;
  void* const p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(p != MAP_FAILED && pthread_create(&thread, NULL, hand_over_once, NULL) == 0);
  EXPECT(mi_manage_memory(p, room, false, false, true, -1, true, &commit_and_hand_over, &is_due,
                          &id));
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  EXPECT(heap != NULL && mi_prof_start(1));
  mi_free(mi_heap_malloc(heap, 64));
  is_due = true;
  void* const block = mi_heap_malloc(heap, 8 * LARGE);
  EXPECT(block != NULL && atomic_load(&hand_over) == 2);
  EXPECT(pthread_join(thread, NULL) == 0);
  EXPECT(told == 0 && thresholds_missed == 0);
  mi_free(block);
  EXPECT(freed == 0);
  mi_heap_delete(heap);
}

// Each allocation counts, so there is one sample for each distance.
static void test_distances(void) {
  enum { COUNT = 10000, SIZE = 64 };
  static void* blocks[COUNT];
  mi_free(mi_malloc(LARGE));
  mi_free(mi_malloc(LARGE));
  told = freed = bytes_told = 0;
  for (int i = 0; i < COUNT; i++) blocks[i] = mi_malloc(SIZE);
  EXPECT(told == COUNT * SIZE / distance || told == COUNT * SIZE / distance - 1);
  EXPECT(bytes_told == told * distance || told == 0);
  for (int i = 0; i < COUNT; i++) mi_free(blocks[i]);
  EXPECT(freed == told && thresholds_missed == 0);
  // 0: each.
  distance = 0;
  mi_free(mi_malloc(2 * LARGE));
  told = freed = 0;
  for (int i = 0; i < 10; i++) mi_free(mi_malloc(10));
  EXPECT(told == 10 && freed == 10);
  // As good as none.
  distance = SIZE_MAX;
  mi_free(mi_malloc(10));
  told = 0;
  for (int i = 0; i < 100; i++) mi_free(mi_malloc(LARGE));
  EXPECT(told == 0);
}

static void* in_thread(void* arg) {
  *(void**)arg = mi_malloc(32 * LARGE);
  return NULL;
}

static void test_ways(void) {
  // A new thread's first distance is drawn.
  void* p = NULL;
  pthread_t thread;
  distance = 0;
  told = freed = 0;
  EXPECT(pthread_create(&thread, NULL, in_thread, &p) == 0 && pthread_join(thread, NULL) == 0);
  EXPECT(told == 1 && last_size == 32 * LARGE);
  mi_free(p);
  EXPECT(freed == 1);
  // So is a heap's.
  mi_heap_t* const heap = mi_heap_new();
  EXPECT(mi_heap_malloc(heap, 32 * LARGE) != NULL);
  EXPECT(told == 2 && last_tag == 0);
  EXPECT(mi_heap_malloc(heap, 100) != NULL && told == 3);
  mi_heap_destroy(heap);
  EXPECT(freed == 3);
}

// A block that is resized where it is ends and begins.
static void test_resized(void) {
  mi_heap_t* const heap = mi_heap_new();
  EXPECT(heap != NULL);
  mi_free(mi_heap_malloc(heap, 32 * LARGE));
  told = freed = 0;
  char* p = (char*)mi_heap_malloc(heap, 100);
  EXPECT(told == 1);
  char* const q = (char*)mi_heap_realloc(heap, p, 98);
  EXPECT(q == p ? (told == 2 && freed == 1 && last_size == 98) : told >= 1);
  mi_free(q);
  EXPECT(told == freed);
  mi_heap_delete(heap);
}

// A heap of which every allocation is told.
static mi_heap_t* told_heap(void) {
  mi_heap_t* const heap = mi_heap_new();
  distance = 0;
  mi_free(mi_heap_malloc(heap, 32 * LARGE));
  return heap;
}

// So is one that shrinks by more than it may, of any size.
static void test_shrunk(void) {
  mi_heap_t* const heap = told_heap();
  for (size_t size = 30; size < 64 * LARGE; size *= 5) {
    void* const p = mi_heap_malloc(heap, size);
    told = freed = 0;
    void* const q = mi_heap_realloc(heap, p, size / 3);
    EXPECT(told == 1 && freed == 1 && last_size == size / 3);
    mi_free(q);
    EXPECT(freed == 2);
  }
  mi_heap_delete(heap);
}

// One that grows by more than its room is told of once, wherever it lies then; the end of what
// moves with its page tables is told while it is there.
static void test_moved(void) {
  mi_heap_t* const heap = told_heap();
  for (size_t size = 10; size < 64 * LARGE; size *= 5) {
    void* const p = mi_heap_malloc(heap, size);
    told = freed = 0;
    void* const q = mi_heap_realloc(heap, p, 3 * size);
    EXPECT(q != NULL && freed == 1);
    EXPECT(told == 1 ? last_size == 3 * size : told == 0 && size > LARGE / 8);
    mi_free(q);
    EXPECT(freed == 1 + told);
  }
  mi_heap_delete(heap);
}

// What was sampled before is none of the program's.
static void test_before(void) {
  distance = SIZE_MAX;
  mi_free(mi_malloc(2 * LARGE));
  told = freed = 0;
  before[0] = (char*)mi_realloc(before[0], LARGE - 100);
  mi_free(before[0]);
  mi_free(before[1]);
  EXPECT(told == 0 && freed == 0);
}

// When all memory for records is used up allocations go on, and are not told of.
static void test_no_records(void) {
  enum { COUNT = 20000 };
  static void* blocks[COUNT];
  mi_heap_t* const heap = mi_heap_new();  // whose first distance is drawn
  distance = 0;
  mi_free(mi_heap_malloc(heap, 32 * LARGE));
  told = freed = 0;
  for (int i = 0; i < COUNT; i++) {
    blocks[i] = mi_heap_malloc(heap, 16);
    if (blocks[i] != NULL) *(char*)blocks[i] = 1;
  }
  EXPECT(told > 1000 && told < COUNT && blocks[COUNT - 1] != NULL);
  for (int i = 0; i < COUNT; i++) mi_free(blocks[i]);
  EXPECT(freed == told);
  told = freed = 0;
  mi_free(mi_heap_malloc(heap, 16));
  EXPECT(told == 1 && freed == 1);
  mi_heap_delete(heap);
}

int main(void) {
  mi_option_set(mi_option_prof_rate, 4096);
  mi_option_set(mi_option_prof_memory, 1024);
  test_refused();
  test_meanwhile();
  EXPECT(!mi_profiler_enable(sizeof(mine_t), on_alloc, on_free));
  EXPECT(!mi_prof_start(4096) && !mi_prof_is_enabled());
  test_distances();
  test_ways();
  test_resized();
  test_moved();
  test_shrunk();
  test_before();
  test_no_records();
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
