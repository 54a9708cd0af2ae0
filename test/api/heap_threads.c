// SPDX-License-Identifier: MIT
// Heaps that several threads use: given up by one of them while others free their blocks, collect,
// end or go on with other heaps.
#include <mimalloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "api_check.h"
#include "has_time.h"
#include "os/tags.h"

enum { THREADS = 4, BLOCKS = 300, ROUNDS = 50 };

// A block begins with its own size and is filled with a byte of its address.
static void* filled(mi_heap_t* heap, size_t size) {
  unsigned char* const p = (unsigned char*)mi_heap_malloc(heap, size);
  CHECK(p != NULL && mi_heap_of(p) == heap);
  memset(p, (int)((uintptr_t)p >> 4 & 0xFF), size);
  memcpy(p, &size, sizeof(size));
  return p;
}

static void verify_and_free(void* block) {
  unsigned char* const p = (unsigned char*)block;
  size_t size;
  memcpy(&size, p, sizeof(size));
  for (size_t i = sizeof(size); i < size; i++) CHECK(p[i] == ((uintptr_t)p >> 4 & 0xFF));
  mi_free(p);
}

static size_t size_of_round(unsigned seed) {
  static const size_t sizes[] = {16, 24, 48, 100, 256, 700, 1500, 5000, 20000, 90000};
  return sizes[seed % (sizeof(sizes) / sizeof(sizes[0]))];
}

typedef struct shared_s {
  pthread_barrier_t barrier;
  mi_heap_t* heap;
  time_t begun;
  bool is_over;  // of all at the same round
  _Atomic(void*) blocks[THREADS][BLOCKS];
} shared_t;

static shared_t shared;

typedef struct worker_s {
  pthread_t thread;
  unsigned id;
} worker_t;

static void start(worker_t* workers, void* (*run)(void*)) {
  CHECK(pthread_barrier_init(&shared.barrier, NULL, THREADS) == 0);
  shared.begun = 0;
  for (unsigned i = 0; i < THREADS; i++) {
    workers[i].id = i;
    CHECK(pthread_create(&workers[i].thread, NULL, run, &workers[i]) == 0);
  }
}

static void join(worker_t* workers) {
  for (unsigned i = 0; i < THREADS; i++) CHECK(pthread_join(workers[i].thread, NULL) == 0);
  pthread_barrier_destroy(&shared.barrier);
}

// Whether there is no time for another round, which has a heap else.
static bool has_ended(const worker_t* me) {
  if (me->id == 0) {
    shared.is_over = !has_time(&shared.begun);
    if (!shared.is_over) CHECK((shared.heap = mi_heap_new()) != NULL);
  }
  pthread_barrier_wait(&shared.barrier);
  return shared.is_over;
}

// ---- a heap is deleted while all free its blocks -----------------------------------------------

static void* run_delete(void* arg) {
  const worker_t* const me = (const worker_t*)arg;
  for (unsigned round = 0; round < ROUNDS; round++) {
    if (has_ended(me)) break;
    for (unsigned i = 0; i < BLOCKS; i++) {
      void* const block = filled(shared.heap, size_of_round(round * 7 + i % 9));
      atomic_store(&shared.blocks[me->id][i], block);
    }
    pthread_barrier_wait(&shared.barrier);
    // Half of one's own blocks are freed here, half of a neighbour's there, in the middle of which
    // the heap goes.
    const unsigned other = (me->id + 1) % THREADS;
    for (unsigned i = 0; i < BLOCKS; i++) {
      if (me->id == round % THREADS && i == BLOCKS / 2) mi_heap_delete(shared.heap);
      const unsigned whose = (i % 2 == 0 ? me->id : other);
      verify_and_free(atomic_exchange(&shared.blocks[whose][i], NULL));
    }
    pthread_barrier_wait(&shared.barrier);
    for (unsigned i = 0; i < BLOCKS; i++) CHECK(atomic_load(&shared.blocks[me->id][i]) == NULL);
    if (round % 8 == 7) mi_collect(true);
    pthread_barrier_wait(&shared.barrier);
  }
  return NULL;
}

// ---- a heap is destroyed that others used once -------------------------------------------------

static void* run_destroy(void* arg) {
  const worker_t* const me = (const worker_t*)arg;
  for (unsigned round = 0; round < ROUNDS; round++) {
    if (has_ended(me)) break;
    for (unsigned i = 0; i < BLOCKS; i++) filled(shared.heap, size_of_round(round * 5 + i % 7));
    pthread_barrier_wait(&shared.barrier);
    if (me->id == round % THREADS) {
      mi_heap_destroy(shared.heap);
    } else {
      // The others do what is theirs: another heap, the default one, collecting.
      mi_heap_t* const mine = mi_heap_new();
      for (unsigned i = 0; i < 50; i++) verify_and_free(filled(mine, size_of_round(i)));
      if (me->id % 2 == 0) mi_collect(false);
      void* const kept = filled(mine, 40);
      mi_heap_delete(mine);
      CHECK(mi_heap_of(kept) == mi_heap_main());
      verify_and_free(kept);
    }
    pthread_barrier_wait(&shared.barrier);
  }
  return NULL;
}

// ---- threads end while their heaps go ----------------------------------------------------------

typedef struct ending_s {
  mi_heap_t* heap;
  pthread_barrier_t* used;
} ending_t;

static void* run_ending(void* arg) {
  ending_t* const e = (ending_t*)arg;
  for (unsigned i = 0; i < 40; i++) filled(e->heap, size_of_round(i));
  void* const own = filled(mi_heap_main(), 64);
  pthread_barrier_wait(e->used);
  verify_and_free(own);
  return NULL;  // and the thread's parts of both heaps go, while the heap itself does
}

static void test_threads_end(void) {
  time_t begun = 0;
  for (unsigned round = 0; round < 200 && has_time(&begun); round++) {
    pthread_barrier_t used;
    CHECK(pthread_barrier_init(&used, NULL, 3) == 0);
    ending_t e = {mi_heap_new(), &used};
    pthread_t a, b;
    CHECK(pthread_create(&a, NULL, &run_ending, &e) == 0);
    CHECK(pthread_create(&b, NULL, &run_ending, &e) == 0);
    pthread_barrier_wait(&used);
    if (round % 2 == 0) mi_heap_destroy(e.heap);
    else mi_heap_delete(e.heap);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_barrier_destroy(&used);
  }
}

// ---- what a thread leaves ----------------------------------------------------------------------

static void* left_block;

static void* run_leave(void* arg) {
  left_block = filled((mi_heap_t*)arg, 128);
  return NULL;
}

static void test_left_block(void) {
  mi_heap_t* const heap = mi_heap_new();
  pthread_t t;
  CHECK(pthread_create(&t, NULL, &run_leave, heap) == 0);
  pthread_join(t, NULL);
  CHECK(mi_heap_of(left_block) == heap && mi_heap_contains_block(heap, left_block));
  // The page is taken over for allocation rather than a fresh one made.
  void* const p = filled(heap, 128);
  CHECK((uintptr_t)mx_tag_strip(p) >> 16 == (uintptr_t)mx_tag_strip(left_block) >> 16);
  mi_heap_delete(heap);
  CHECK(mi_heap_of(left_block) == mi_heap_main() && mi_heap_of(p) == mi_heap_main());
  verify_and_free(left_block);
  verify_and_free(p);
}

// ---- a default that goes -----------------------------------------------------------------------

static void* run_default_goes(void* arg) {
  mi_heap_t* const heap = (mi_heap_t*)arg;
  mi_heap_set_default(heap);
  void* const p = mi_malloc(100);
  CHECK(mi_heap_of(p) == heap);
  pthread_barrier_wait(&shared.barrier);
  pthread_barrier_wait(&shared.barrier);
  void* const q = mi_malloc(100);
  CHECK(q != NULL && mi_heap_of(q) == mi_heap_main());
  mi_free(q);
  return NULL;
}

static void test_default_goes(void) {
  for (int destroys = 0; destroys < 2; destroys++) {
    CHECK(pthread_barrier_init(&shared.barrier, NULL, 2) == 0);
    mi_heap_t* const heap = mi_heap_new();
    pthread_t t;
    CHECK(pthread_create(&t, NULL, &run_default_goes, heap) == 0);
    pthread_barrier_wait(&shared.barrier);
    if (destroys) mi_heap_destroy(heap);
    else mi_heap_delete(heap);
    pthread_barrier_wait(&shared.barrier);
    pthread_join(t, NULL);
    pthread_barrier_destroy(&shared.barrier);
  }
}

// ---- a block of another heap, resized by a thread that begins so ------------------------------------

typedef struct resized_s {
  void* block;
  size_t size;
  bool is_zeroed, ends_first;
} resized_t;

static void* run_resize(void* arg) {
  resized_t* const r = (resized_t*)arg;
  if (r->ends_first) {
    mi_free(mi_malloc(100));
    mi_thread_done();
  }
  r->block = (r->is_zeroed ? mi_rezalloc(r->block, r->size) : mi_realloc(r->block, r->size));
  return NULL;
}

// It moves to the thread's heap, however little it changes: the other one may be destroyed.
static void test_resized_at_first(void) {
  static const size_t sizes[][2] = {{100, 100}, {100, 90},  {100, 60},           {100, 3000},
                                    {9000, 40}, {5000, 5000}, {3 << 20, 3 << 20}, {3 << 20, 5 << 20},
                                    {5 << 20, 3 << 20}};
  for (size_t i = 0; i < 4 * sizeof(sizes) / sizeof(sizes[0]); i++) {
    const size_t *const size = sizes[i / 4], kept = size[0] < size[1] ? size[0] : size[1];
    mi_heap_t* const heap = mi_heap_new();
    resized_t r = {mi_heap_malloc(heap, size[0]), size[1], i % 2 != 0, i / 2 % 2 != 0};
    CHECK(r.block != NULL && mi_heap_of(r.block) == heap);
    memset(r.block, 0x5A, size[0]);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, &run_resize, &r) == 0 && pthread_join(t, NULL) == 0);
    CHECK(r.block != NULL && mi_heap_of(r.block) == mi_heap_main());
    mi_heap_destroy(heap);
    for (size_t k = 0; k < kept; k++) CHECK(((unsigned char*)r.block)[k] == 0x5A);
    mi_free(r.block);
  }
}

int main(void) {
  worker_t workers[THREADS];
  start(workers, &run_delete);
  join(workers);
  start(workers, &run_destroy);
  join(workers);
  test_threads_end();
  test_left_block();
  test_default_goes();
  test_resized_at_first();
  return 0;
}
