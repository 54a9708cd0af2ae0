// SPDX-License-Identifier: MIT
// A program of a library that has a malloc of its own (behind_library.c), run with ours preloaded: every
// name of malloc is the preloaded one's, and the library's malloc is never asked.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t behind_taken(void);

static int failures;

static void expect(const char* name) {
  if (behind_taken() == 0) return;
  fprintf(stderr, "%s led to the library behind\n", name);
  exit(1);
}

static void use(const char* name, void* p) {
  expect(name);
  if (p == NULL) {
    fprintf(stderr, "%s: no block\n", name);
    failures++;
    return;
  }
  memset(p, 1, 100);
  if (malloc_usable_size(p) < 100) failures++;
  free(p);
  expect("free");
}

int main(void) {
  use("malloc", malloc(100));
  use("calloc", calloc(10, 10));
  use("realloc", realloc(NULL, 100));
  use("realloc", realloc(malloc(10), 100));
  use("reallocarray", reallocarray(NULL, 10, 10));
  use("reallocarray", reallocarray(malloc(10), 10, 10));
  use("memalign", memalign(64, 100));
  use("aligned_alloc", aligned_alloc(64, 128));
  use("valloc", valloc(100));
  use("pvalloc", pvalloc(100));
  void* p = NULL;
  if (posix_memalign(&p, 64, 100) != 0) failures++;
  use("posix_memalign", p);
  return failures != 0;
}
