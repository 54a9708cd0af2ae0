// SPDX-License-Identifier: MIT
// A module whose constructor, under the loader's lock, waits for a thread that registers handlers.
#include <pthread.h>
#include <unistd.h>

static void handler(void) {}

static void* start(void* arg) {
  pthread_atfork(handler, handler, handler);
  return arg;
}

__attribute__((constructor)) static void on_load(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, start, NULL) != 0) _exit(3);
  pthread_join(thread, NULL);
}
