// SPDX-License-Identifier: MIT
// All threads free into one page at the same moment: one thread fills pages of one size, all of
// them free every n-th block of it, while the first one allocates on from the same pages.
#include "stress.h"

#define BLOCKS 2048

static _Atomic(block_t*) blocks[BLOCKS];
static pthread_barrier_t barrier;
static atomic_bool stop;

static void take_all(random_t* r) {
  const size_t first = random_below(r, BLOCKS);
  for (size_t i = 0; i < BLOCKS; i++) {
    block_free(atomic_exchange(&blocks[(first + i) % BLOCKS], (block_t*)NULL));
  }
}

static void* body(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  for (;;) {
    pthread_barrier_wait(&barrier);
    if (stop) return NULL;
    take_all(&r);
    pthread_barrier_wait(&barrier);
  }
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  pthread_t threads[64];
  const int n = stress_threads < 63 ? stress_threads : 63;
  pthread_barrier_init(&barrier, NULL, (unsigned)n + 1);
  for (int i = 0; i < n; i++) threads[i] = start(body, (void*)(uintptr_t)(i + 1));
  random_t r = random_of(0);
  size_t rounds = 0;
  while (!stop) {
    static const size_t sizes[] = {32, 48, 64, 256, 1024, 4000, 9000};
    const size_t size = sizes[random_below(&r, sizeof(sizes) / sizeof(sizes[0]))];
    for (size_t i = 0; i < BLOCKS; i++) atomic_store(&blocks[i], block_new(size, i + rounds));
    pthread_barrier_wait(&barrier);
    block_t* mine[64];
    for (int i = 0; i < 64; i++) mine[i] = block_new(size, 99);
    for (int i = 0; i < 64; i++) block_free(mine[i]);
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < BLOCKS; i++) check(atomic_load(&blocks[i]) == NULL);
    rounds++;
    stop = stress_is_over();
  }
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
  printf("%zu rounds, %zu frees\n", rounds, rounds * BLOCKS);
  return 0;
}
