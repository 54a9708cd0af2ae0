// SPDX-License-Identifier: MIT
// Sub-processes are made, used by threads of their own, and ended, while other threads give memory
// back everywhere: the background thread, mi_collect and mi_purge_holes walk all arenas, those of
// sub-processes that end just now among them. Destroyed ones take their blocks along; the blocks of
// deleted ones are freed later.
#include "../stress.h"

#include "mimalloc-stats.h"
#include "mimalloc.h"

#define BLOCKS 400
// A deleted sub-process leaves its arenas to the main one, which soon has all of 32 bits.
#define MOST_DELETED (sizeof(void*) == 4 ? (size_t)8 : SIZE_MAX)

static atomic_size_t destroyed, deleted, collected;
static atomic_bool stop;

typedef struct user_s {
  mi_subproc_id_t subproc;
  uint64_t seed;
  block_t* blocks[BLOCKS];
} user_t;

static block_t* make(random_t* r) {
  const size_t size = 32 + random_size(r);
  block_t* const b = (block_t*)mi_malloc(size);
  check(b != NULL);
  block_sign(b, size, random_next(r));
  return b;
}

static void drop(block_t* b) {
  if (b == NULL) return;
  block_check(b);
  b->stamp = ~b->stamp;
  mi_free(b);
}

// Leaves some blocks behind in its sub-process.
static void* uses(void* arg) {
  user_t* const user = (user_t*)arg;
  random_t r = random_of(user->seed);
  mi_subproc_add_current_thread(user->subproc);
  for (size_t i = 0; i < BLOCKS; i++) user->blocks[i] = make(&r);
  for (size_t i = 0; i < BLOCKS; i++) {
    if (random_below(&r, 4) == 0) continue;
    drop(user->blocks[i]);
    user->blocks[i] = NULL;
  }
  return NULL;
}

static void* makes_and_ends(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  user_t* const user = (user_t*)mi_malloc(sizeof(user_t));
  while (!stop) {
    user->subproc = mi_subproc_new();
    user->seed = random_next(&r);
    pthread_join(start(uses, user), NULL);
    if (random_below(&r, 2) == 0 || deleted >= MOST_DELETED) {
      mi_subproc_destroy(user->subproc);
      atomic_fetch_add(&destroyed, 1);
    } else {
      mi_subproc_delete(user->subproc);
      for (size_t i = 0; i < BLOCKS; i++) drop(user->blocks[i]);
      atomic_fetch_add(&deleted, 1);
    }
  }
  mi_free(user);
  return NULL;
}

static void* collects(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg + 100);
  block_t* mine[64] = {NULL};
  while (!stop) {
    for (size_t i = 0; i < 64; i++) {
      drop(mine[i]);
      mine[i] = random_below(&r, 2) == 0 ? make(&r) : NULL;
    }
    if (random_below(&r, 2) == 0) mi_collect(true);
    else mi_purge_holes();
    atomic_fetch_add(&collected, 1);
  }
  for (size_t i = 0; i < 64; i++) drop(mine[i]);
  return NULL;
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  mi_option_set(mi_option_background_purge, 1);
  mi_option_set(mi_option_purge_delay, 1);
  mi_free(mi_malloc(8 << 20));
  pthread_t threads[8];
  const int n = stress_threads < 4 ? stress_threads : 4;
  for (int i = 0; i < n; i++) {
    threads[2 * i] = start(makes_and_ends, (void*)(uintptr_t)(i + 1));
    threads[2 * i + 1] = start(collects, (void*)(uintptr_t)(i + 1));
  }
  while (!stress_is_over()) usleep(10000);
  stop = true;
  for (int i = 0; i < 2 * n; i++) pthread_join(threads[i], NULL);
  printf("%zu sub-processes destroyed, %zu deleted, memory given back %zu times\n",
         (size_t)destroyed, (size_t)deleted, (size_t)collected);
  return 0;
}
