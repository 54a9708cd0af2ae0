// SPDX-License-Identifier: MIT
// A program that knows only malloc, and asks at the end of each way to get a block whether the
// library served it: directly, through the C library, and in a thread.
//
// mi_is_in_heap_region is looked up by hand when it was not linked, so that the very program can
// run with a preloaded library.
#define _GNU_SOURCE 1
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LOOK_UP
#include <dlfcn.h>
#endif

typedef bool region_fun(const void* p);

static region_fun* in_heap_region;
static int failures;

#ifndef LOOK_UP
bool mi_is_in_heap_region(const void* p);
#endif

static void find_region(void) {
#ifdef LOOK_UP
  void* symbol = dlsym(RTLD_DEFAULT, "mi_is_in_heap_region");
  memcpy(&in_heap_region, &symbol, sizeof(symbol));
  if (in_heap_region == NULL) {
    puts("the library is not in this process");
    exit(1);
  }
#else
  in_heap_region = &mi_is_in_heap_region;
#endif
}

// The block must come from the library; it is written and freed.
static void served(void* p, size_t size, const char* what) {
  if (p == NULL || !in_heap_region(p)) {
    printf("%s: not served by the library\n", what);
    failures++;
    return;
  }
  memset(p, 0xA5, size);
  free(p);
}

static void from_libc(void) {
  char* text = NULL;
  if (asprintf(&text, "%01000d", 7) != 1000) failures++;
  served(text, 1001, "asprintf");
  size_t length = 0;
  char* line = NULL;
  char input[] = "one line\n";
  FILE* stream = fmemopen(input, sizeof(input) - 1, "r");
  if (stream == NULL || getline(&line, &length, stream) != (ssize_t)sizeof(input) - 1) failures++;
  served(line, length, "getline");
  if (stream != NULL) fclose(stream);
  served(realpath("/", NULL), 2, "realpath");
}

static void directly(void) {
  served(malloc(100), 100, "malloc");
  served(calloc(10, 10), 100, "calloc");
  served(realloc(malloc(10), 100000), 100000, "realloc");
  served(aligned_alloc(64, 640), 640, "aligned_alloc");
  served(strdup("text"), 5, "strdup");
  served(strndup("text", 2), 3, "strndup");
  served(malloc(50 * 1000 * 1000), 50 * 1000 * 1000, "a huge malloc");
  void* p = NULL;
  if (posix_memalign(&p, 4096, 100) != 0) failures++;
  served(p, 100, "posix_memalign");
  errno = 0;
  volatile size_t too_much = SIZE_MAX / 2 + 2;
  if (malloc(too_much) != NULL || errno != ENOMEM) {
    puts("malloc of too much: no NULL and ENOMEM");
    failures++;
  }
}

static void* in_thread(void* arg) {
  directly();
  return strdup((const char*)arg);
}

int main(void) {
  find_region();
  directly();
  from_libc();
  pthread_t thread;
  void* left = NULL;
  char text[] = "outlives its thread";
  if (pthread_create(&thread, NULL, &in_thread, text) != 0 || pthread_join(thread, &left) != 0) {
    return 1;
  }
  served(left, sizeof(text), "a block of a thread that ended");
  if (failures == 0) puts("served");
  return failures != 0;
}
