// SPDX-License-Identifier: MIT
// Compiled with the thread sanitizer: allocates, also in another thread.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void* allocate(void* arg) {
  for (size_t size = 1; size < 100000; size += size / 4 + 1) {
    char* const p = malloc(size);
    if (p == NULL) abort();
    memset(p, 1, size);
    free(p);
  }
  return arg;
}

int main(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, &allocate, NULL) != 0) return 1;
  allocate(NULL);
  pthread_join(thread, NULL);
  puts("sanitized: 0 failures");
  return 0;
}
