// SPDX-License-Identifier: MIT
// A library that programs open while they run: it allocates, frees what others allocated, and has
// thread-local data and a thread-specific key of its own.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char scratch[4000];
static pthread_key_t key;

__attribute__((constructor)) static void begin(void) { pthread_key_create(&key, free); }

__attribute__((destructor)) static void end(void) { pthread_key_delete(key); }

__attribute__((visibility("default"))) void* module_make(size_t size) {
  memset(scratch, 1, sizeof(scratch));
  return malloc(size);
}

__attribute__((visibility("default"))) char* module_copy(const char* text) { return strdup(text); }

__attribute__((visibility("default"))) void module_drop(void* p) { free(p); }
