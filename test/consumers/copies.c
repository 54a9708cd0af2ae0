// SPDX-License-Identifier: MIT
// Opens the libraries named on the command line one after another, each for itself, allocates from
// all of them in several threads, frees, and closes them: two copies in one process do not disturb
// each other, and neither exhausts the static thread-local storage.
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define COPIES 8
#define BLOCKS 1000

typedef void* malloc_fun(size_t size);
typedef void free_fun(void* p);
typedef _Bool region_fun(const void* p);

typedef struct copy_s {
  void* handle;
  malloc_fun* malloc;
  free_fun* free;
  region_fun* is_in_region;
} copy_t;

static copy_t copies[COPIES];
static int count;

static void look_up(void* handle, const char* name, void* function) {
  void* symbol = dlsym(handle, name);
  memcpy(function, &symbol, sizeof(symbol));
}

static void* work(void* failed) {
  for (int c = 0; c < count; c++) {
    void* blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
      blocks[i] = copies[c].malloc(i + 1);
      if (blocks[i] == NULL || !copies[c].is_in_region(blocks[i])) return failed;
      memset(blocks[i], (int)i, i + 1);
    }
    for (size_t i = 0; i < BLOCKS; i++) copies[c].free(blocks[i]);
  }
  return NULL;
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc && count < COPIES; i++, count++) {
    copy_t* copy = &copies[count];
    copy->handle = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    if (copy->handle == NULL) {
      printf("%s\n", dlerror());
      return 1;
    }
    look_up(copy->handle, "mi_malloc", &copy->malloc);
    look_up(copy->handle, "mi_free", &copy->free);
    look_up(copy->handle, "mi_is_in_heap_region", &copy->is_in_region);
    for (int other = 0; other < count; other++) {
      if (copies[other].malloc == copy->malloc) {
        printf("%s is the library that was opened before\n", argv[i]);
        return 1;
      }
    }
  }
  pthread_t threads[4];
  int failed = 0;
  for (int round = 0; round < 20; round++) {
    for (int t = 0; t < 4; t++) pthread_create(&threads[t], NULL, &work, &failed);
    for (int t = 0; t < 4; t++) {
      void* result = NULL;
      pthread_join(threads[t], &result);
      if (result != NULL) failed = 1;
    }
  }
  if (work(&failed) != NULL) failed = 1;
  for (int c = 0; c < count; c++) dlclose(copies[c].handle);
  if (!failed) printf("%d copies\n", count);
  return failed;
}
