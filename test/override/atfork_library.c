// SPDX-License-Identifier: MIT
// A library whose constructor registers handlers for fork, before that of any library which is not
// among its own dependencies. They allocate, and wait for a lock under which others allocate.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACES 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void* places[PLACES];
int atfork_calls[3];

// Sizes that no thread has blocks of at hand, so that there is more to do than to take one.
static void allocate(void) {
  for (size_t size = 16; size < 3000000; size += size / 4) {
    char* const p = malloc(size);
    if (p == NULL) _exit(3);
    p[0] = p[size - 1] = 1;
    free(p);
  }
}

static void before(void) {
  allocate();
  pthread_mutex_lock(&lock);
  allocate();
  atfork_calls[0]++;
}

static void after_in_parent(void) {
  allocate();
  pthread_mutex_unlock(&lock);
  atfork_calls[1]++;
}

static void after_in_child(void) {
  allocate();
  pthread_mutex_unlock(&lock);
  atfork_calls[2]++;
}

__attribute__((constructor)) static void on_load(void) {
  pthread_atfork(before, after_in_parent, after_in_child);
}

void atfork_replace(unsigned seed) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 20; i++) {
    seed = seed * 1103515245u + 12345u;
    void** const place = &places[(seed >> 16) % PLACES];
    const size_t size = 1 + (seed >> 8) % 65536;
    free(*place);
    *place = malloc(size);
    if (*place == NULL) _exit(3);
    memset(*place, 1, size);
  }
  pthread_mutex_unlock(&lock);
}
