// SPDX-License-Identifier: MIT
// Thread-specific data of a program that preloads the library: a key that was not made yet, whose
// number is 0 in static memory, is none, and the first one that is made is.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 200 };

static pthread_key_t key;
static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static void* run(void* arg) {
  memset(malloc(100), 1, 100);
  EXPECT(pthread_getspecific(key) == NULL);
  EXPECT(pthread_setspecific(key, arg) == EINVAL);
  for (size_t size = 1; size < 1 << 20; size *= 2) free(malloc(size));
  return NULL;
}

int main(void) {
  for (int i = 0; i < THREADS; i++) {
    pthread_t t;
    EXPECT(pthread_create(&t, NULL, &run, (void*)0xFF) == 0 && pthread_join(t, NULL) == 0);
  }
  run((void*)0xFF);
  EXPECT(pthread_key_delete(key) == EINVAL);
  EXPECT(pthread_key_create(&key, &free) == 0 && key == 0);
  EXPECT(pthread_setspecific(key, malloc(10)) == 0);
  free(pthread_getspecific(key));
  EXPECT(pthread_setspecific(key, NULL) == 0);
  return failures != 0;
}
