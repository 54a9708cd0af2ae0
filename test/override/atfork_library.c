// SPDX-License-Identifier: MIT
// A library whose constructor registers handlers for fork, before that of any library which is not
// among its own dependencies. They allocate, and wait for a lock under which others allocate. With
// PAST they are registered by the C library's own function, past the allocator's, and only allocate.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACES 64

#if defined(PAST)
static _Thread_local void* places[PLACES];
#else
static void* places[PLACES];
#endif
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

#if defined(PAST)
static void lock_places(void) {}
static void unlock_places(void) {}

typedef int register_fn(void (*)(void), void (*)(void), void (*)(void), void*);

static void register_handlers(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  void* const libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  void* const found = (libc != NULL ? dlsym(libc, "__register_atfork") : NULL);
  register_fn* own;
  memcpy(&own, &found, sizeof(own));
  if (own == NULL || own(prepare, parent, child, NULL) != 0) _exit(4);
}
#else
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void lock_places(void) { pthread_mutex_lock(&lock); }
static void unlock_places(void) { pthread_mutex_unlock(&lock); }

static void register_handlers(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  pthread_atfork(prepare, parent, child);
}
#endif

static void before(void) {
  allocate();
  lock_places();
  allocate();
  atfork_calls[0]++;
}

static void after_in_parent(void) {
  allocate();
  unlock_places();
  atfork_calls[1]++;
}

static void after_in_child(void) {
  allocate();
  unlock_places();
  atfork_calls[2]++;
}

__attribute__((constructor)) static void on_load(void) {
  register_handlers(before, after_in_parent, after_in_child);
}

void atfork_replace(unsigned seed) {
  lock_places();
  for (int i = 0; i < 20; i++) {
    seed = seed * 1103515245u + 12345u;
    void** const place = &places[(seed >> 16) % PLACES];
    const size_t size = 1 + (seed >> 8) % 65536;
    free(*place);
    *place = malloc(size);
    if (*place == NULL) _exit(3);
    memset(*place, 1, size);
  }
  unlock_places();
}
