// SPDX-License-Identifier: MIT
// Producers and consumers: what one side allocates the other one frees, for as long as told, in
// constant memory. The queue is bounded, so what is live is bounded, too.
//
// A fourth argument gives the shape: 1:1, N:1 or 1:N. Without it all three take their share of time.
#include "stress.h"

#define QUEUE 1024

static block_t* queue[QUEUE];
static size_t head, tail;  // under the lock
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_room = PTHREAD_COND_INITIALIZER, has_block = PTHREAD_COND_INITIALIZER;
static atomic_bool stop;  // of producers
static bool closed;       // no more will come; under the lock
static size_t passed;

static void* produce(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  for (size_t i = 0; !stop; i++) {
    block_t* batch[32];
    for (int k = 0; k < 32; k++) batch[k] = block_new(random_size(&r), i);
    pthread_mutex_lock(&lock);
    for (int k = 0; k < 32; k++) {
      while (tail - head == QUEUE) pthread_cond_wait(&has_room, &lock);
      queue[tail++ % QUEUE] = batch[k];
      if (k % 16 == 0) pthread_cond_broadcast(&has_block);
    }
    pthread_cond_broadcast(&has_block);
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

static void* consume(void* arg) {
  (void)arg;
  for (;;) {
    block_t* batch[32];
    int n = 0;
    pthread_mutex_lock(&lock);
    while (tail == head && !closed) pthread_cond_wait(&has_block, &lock);
    while (n < 32 && tail != head) batch[n++] = queue[head++ % QUEUE];
    passed += (size_t)n;
    pthread_cond_broadcast(&has_room);
    pthread_mutex_unlock(&lock);
    if (n == 0) return NULL;
    while (n > 0) block_free(batch[--n]);
  }
}

static void run(const char* name, int producers, int consumers, double seconds) {
  pthread_t threads[64];
  int n = 0;
  stop = closed = false;
  passed = 0;
  const double begin = stress_time();
  for (int i = 0; i < consumers; i++) threads[n++] = start(consume, NULL);
  const int first_producer = n;
  for (int i = 0; i < producers; i++) threads[n++] = start(produce, (void*)(uintptr_t)(i + 1));
  size_t early = 0, late = 0;
  while (stress_time() - begin < seconds) {
    usleep(20000);
    const size_t now = resident();
    // Half of the time to become steady; then no more growth.
    if (stress_time() - begin < seconds / 2) early = now > early ? now : early;
    else late = now > late ? now : late;
  }
  stop = true;
  for (int i = first_producer; i < n; i++) pthread_join(threads[i], NULL);
  pthread_mutex_lock(&lock);
  closed = true;
  pthread_cond_broadcast(&has_block);
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < first_producer; i++) pthread_join(threads[i], NULL);
  check(head == tail);
  printf("%s: %zu blocks passed, resident %zu KiB in the first half, %zu KiB in the second\n", name,
         passed, early / 1024, late / 1024);
  // It takes about a minute until pages of every size have been touched all over; before that only
  // what is far above the level that it comes to is a fault.
  const bool grows = (seconds >= 60 && late > early * 5 / 4 + ((size_t)16 << 20));
  if (grows || late > (size_t)512 << 20) fail("%s: memory grows", name);
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  const char* shape = argc > 4 ? argv[4] : NULL;
  const int n = stress_threads < 30 ? stress_threads : 30;
  const double share = shape != NULL ? stress_seconds : stress_seconds / 3;
  if (shape == NULL || strcmp(shape, "1:1") == 0) run("1:1", 1, 1, share);
  if (shape == NULL || strcmp(shape, "N:1") == 0) run("N:1", n, 1, share);
  if (shape == NULL || strcmp(shape, "1:N") == 0) run("1:N", 1, n, share);
  return 0;
}
