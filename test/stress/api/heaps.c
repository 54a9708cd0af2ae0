// SPDX-License-Identifier: MIT
// Heaps are made, used from several threads and given up, under load. Deleted heaps leave their
// blocks, which other threads free later; destroyed ones take theirs along. Meanwhile arenas are
// added, threads end, also by an early mi_thread_done, and blocks are visited.
#include "../stress.h"

#include "mimalloc.h"

#define PLACES 1024
#define SHARED 6

static _Atomic(block_t*) places[PLACES];
static struct {
  pthread_rwlock_t lock;  // readers allocate from the heap; the thread that gives it up writes
  mi_heap_t* heap;
} shared[SHARED];
static atomic_size_t deleted, destroyed, visited;

static void exchange(random_t* r, block_t* mine) {
  block_t* found = atomic_exchange(&places[random_below(r, PLACES)], mine);
  if (found == NULL) return;
  block_check(found);
  found->stamp = ~found->stamp;
  mi_free(found);
}

static block_t* sign(void* p, size_t size, uint64_t stamp) {
  if (p == NULL) fail("out of memory");
  block_sign((block_t*)p, size, stamp);
  return (block_t*)p;
}

static void use_shared(random_t* r) {
  const size_t i = random_below(r, SHARED);
  pthread_rwlock_rdlock(&shared[i].lock);
  for (size_t n = 0; n < 50; n++) {
    const size_t size = 32 + random_size(r);
    exchange(r, sign(mi_heap_malloc(shared[i].heap, size), size, n));
  }
  pthread_rwlock_unlock(&shared[i].lock);
}

static void give_up_shared(random_t* r) {
  const size_t i = random_below(r, SHARED);
  pthread_rwlock_wrlock(&shared[i].lock);
  mi_heap_delete(shared[i].heap);
  shared[i].heap = mi_heap_new();
  check(shared[i].heap != NULL);
  pthread_rwlock_unlock(&shared[i].lock);
  atomic_fetch_add(&deleted, 1);
}

static bool visit(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                  void* arg) {
  (void)heap, (void)area;
  if (block != NULL) {
    if (((const block_t*)block)->size > size) fail("a visited block is no block");
    ++*(size_t*)arg;
  }
  return true;
}

static void destroy_own(random_t* r) {
  mi_heap_t* heap = mi_heap_new();
  check(heap != NULL);
  const size_t n = 1 + random_below(r, 200);
  block_t* last = NULL;
  for (size_t i = 0; i < n; i++) {
    const size_t size = 32 + random_size(r);
    last = sign(mi_heap_malloc(heap, size), size, i);
  }
  mi_free(last);
  if (random_below(r, 4) == 0) {
    size_t count = 0;
    mi_heap_visit_blocks(heap, true, visit, &count);
    if (count != n - 1) fail("%zu blocks were visited, %zu are live", count, n - 1);
    atomic_fetch_add(&visited, count);
  }
  mi_heap_destroy(heap);
  atomic_fetch_add(&destroyed, 1);
}

static void* body(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  const size_t steps = 1 + random_below(&r, 300);
  for (size_t i = 0; i < steps && !stress_is_over(); i++) {
    const size_t what = random_below(&r, 100);
    if (what < 3) give_up_shared(&r);
    else if (what < 15) destroy_own(&r);
    else if (what < 60) use_shared(&r);
    else if (what == 60) mi_collect(random_below(&r, 2) == 0);
    else if (what == 61) mi_thread_done();
    else {
      const size_t size = 32 + random_size(&r);
      exchange(&r, sign(mi_malloc(size), size, i));
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  for (int i = 0; i < SHARED; i++) {
    pthread_rwlock_init(&shared[i].lock, NULL);
    shared[i].heap = mi_heap_new();
    check(shared[i].heap != NULL);
  }
  pthread_t threads[64];
  const int n = stress_threads < 64 ? stress_threads : 64;
  uintptr_t number = 0;
  int arenas = 0;
  for (int i = 0; i < n; i++) threads[i] = start(body, (void*)++number);
  for (int i = 0; !stress_is_over(); i = (i + 1) % n) {
    pthread_join(threads[i], NULL);
    threads[i] = start(body, (void*)++number);
    if (arenas < 20 && number % 16 == 0) arenas += (mi_reserve_os_memory(33 << 20, false, false) == 0);
  }
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
  for (size_t i = 0; i < PLACES; i++) {
    block_t* b = atomic_load(&places[i]);
    if (b == NULL) continue;
    block_check(b);
    mi_free(b);
  }
  for (int i = 0; i < SHARED; i++) mi_heap_delete(shared[i].heap);
  printf("%zu heaps deleted, %zu destroyed, %zu blocks visited, %d arenas added, %zu threads\n",
         (size_t)deleted, (size_t)destroyed, (size_t)visited, arenas, (size_t)number);
  return 0;
}
