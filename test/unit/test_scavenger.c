// SPDX-License-Identifier: MIT
// The background thread may be stopped before the one that starts it goes on: this program's own
// pthread_create waits until the thread has run, and stops it. Then nobody may count on it: what
// frees memory has to give it back by itself.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../include/mimalloc.h"
#include "../../src/arena/arena.h"
#include "../../src/service/give_back.h"

typedef int create_fn(pthread_t* thread, const pthread_attr_t* attr, void* (*body)(void*),
                      void* arg);

static int created, failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

int pthread_create(pthread_t* thread, const pthread_attr_t* attr, void* (*body)(void*), void* arg) {
  create_fn* create;
  *(void**)(void*)&create = dlsym(RTLD_NEXT, "pthread_create");
  const int result = create(thread, attr, body, arg);
  created++;
  mi_option_set(mi_option_background_purge, 0);
  return result;
}

static void use_memory(void) {
  void* blocks[64];
  for (int i = 0; i < 64; i++) blocks[i] = mi_malloc(300000);
  for (int i = 0; i < 64; i++) mi_free(blocks[i]);
}

int main(void) {
  for (int round = 1; round <= 20; round++) {
    mi_option_set(mi_option_background_purge, 1);
    use_memory();
    EXPECT(created == round);
    EXPECT(!mx_scavenger_is_running());
    EXPECT(mx_load_acquire(&mx_arenas_background) == NULL);
  }
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
