// SPDX-License-Identifier: MIT
// Blocks wander: threads put blocks into common places and free what they find there, so that most
// blocks are freed by another thread than the one that allocated them, and many after that thread
// has ended. With `deep`, a block is checked at each stop of its way.
#include "stress.h"

#define PLACES 4096

static _Atomic(block_t*) places[PLACES];
static atomic_size_t exchanged;

static void* body(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  // Some threads live long, some do a few steps only.
  const size_t steps = (size_t)1 << (4 + random_below(&r, 13));
  for (size_t i = 0; i < steps; i++) {
    block_t* mine = NULL;
    if (random_below(&r, 4) != 0) mine = block_new(random_size(&r), random_next(&r));
    block_t* found = atomic_exchange(&places[random_below(&r, PLACES)], mine);
    if (found != NULL) {
      block_check(found);
      if (random_below(&r, 8) == 0) {  // on to another place
        found = atomic_exchange(&places[random_below(&r, PLACES)], found);
      } else if (random_below(&r, 16) == 0) {
        const size_t size = 32 + random_size(&r);
        const uint64_t stamp = found->stamp;
        block_t* moved = (block_t*)realloc(found, size);
        check(moved != NULL && moved->stamp == stamp);
        block_sign(moved, size, stamp);
        found = moved;
      }
      block_free(found);
    }
    atomic_fetch_add_explicit(&exchanged, 1, memory_order_relaxed);
  }
  return NULL;
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  const size_t number = relay(body, 64);
  for (size_t i = 0; i < PLACES; i++) block_free(atomic_load(&places[i]));
  printf("%zu exchanges by %zu threads\n", (size_t)exchanged, number);
  return 0;
}
