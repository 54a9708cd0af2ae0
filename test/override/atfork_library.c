// SPDX-License-Identifier: MIT
// A library whose constructor registers handlers for fork, before that of any library which is not
// among its own dependencies. They allocate, and wait for a lock under which others allocate. With
// PAST they are registered by the C library's own function, past the allocator's, and only allocate,
// and end a heap, where there are any, whose record serves other threads then.
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

static void* (*new_heap)(void);
static void (*destroy_heap)(void*);
static void* heaps[2];

static void find_heaps(void) {
  void* const news = dlsym(RTLD_DEFAULT, "mi_heap_new");
  void* const destroys = dlsym(RTLD_DEFAULT, "mi_heap_destroy");
  memcpy(&new_heap, &news, sizeof(new_heap));
  memcpy(&destroy_heap, &destroys, sizeof(destroy_heap));
}

static void end_heap(void) {
  for (int i = 0; i < 2; i++) {
    if (heaps[i] != NULL) destroy_heap(heaps[i]);
    heaps[i] = NULL;
  }
}

static void begin_heap(void) {
  if (new_heap != NULL && destroy_heap != NULL) heaps[0] = new_heap();
}

static void use_heap(void) {
  if (new_heap != NULL && destroy_heap != NULL) destroy_heap(new_heap());
}

static void register_handlers(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  void* const libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  void* const found = (libc != NULL ? dlsym(libc, "__register_atfork") : NULL);
  register_fn* own;
  memcpy(&own, &found, sizeof(own));
  if (own == NULL || own(prepare, parent, child, NULL) != 0) _exit(4);
  find_heaps();
  begin_heap();
  heaps[1] = heaps[0];  // one more than begin again, whose record is left to others
  begin_heap();
}
#else
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void lock_places(void) { pthread_mutex_lock(&lock); }
static void unlock_places(void) { pthread_mutex_unlock(&lock); }
static void end_heap(void) {}
static void begin_heap(void) {}
static void use_heap(void) {}

static void register_handlers(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  pthread_atfork(prepare, parent, child);
}
#endif

static void before(void) {
  allocate();
  lock_places();
  allocate();
  end_heap();
  atfork_calls[0]++;
}

static void after_in_parent(void) {
  allocate();
  unlock_places();
  begin_heap();
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
  use_heap();
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
