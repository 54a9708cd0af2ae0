// SPDX-License-Identifier: MIT
// A program that knows nothing of the library: call stacks that hold known amounts of memory, or
// that only pass through it.
//
//   sites [REPEAT]      what is kept is kept so many times
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_INLINED __attribute__((noinline, noclone))

static void* volatile sink;

// Calls that are no jumps, and take part in the stack.
NOT_INLINED void* inner(size_t size) {
  void* const p = malloc(size);
  sink = p;
  return p;
}

NOT_INLINED void keep_small(int count) {
  for (int i = 0; i < count; i++) {
    void** const p = (void**)inner(200);
    p[0] = sink;
  }
  sink = NULL;
}

NOT_INLINED void keep_large(int count) {
  for (int i = 0; i < count; i++) memset(inner(3 << 20), 1, 100);
  sink = NULL;
}

NOT_INLINED void pass_through(int count) {
  for (int i = 0; i < count; i++) free(inner(1000));
  sink = NULL;
}

NOT_INLINED void keep_others(int count) {
  for (int i = 0; i < count; i++) {
    sink = calloc(1, 5000);
    sink = realloc(malloc(10), 5000);
    void* p = NULL;
    if (posix_memalign(&p, 64, 5056) != 0) abort();
    sink = p;
    sink = aligned_alloc(4096, 8192);
  }
  sink = NULL;
}

// Its frame has another size each time.
NOT_INLINED void beside(size_t room) {
  volatile char place[room + 1];
  place[room] = 1;
  sink = inner(3000 + (size_t)(place[room] - 1));
}

NOT_INLINED void keep_varying(int count) {
  for (int i = 0; i < count; i++) beside((size_t)i * 7919 % 4000);
  sink = NULL;
}

NOT_INLINED void outer(int repeat) {
  keep_small(20000 * repeat);
  keep_large(10 * repeat);
  pass_through(20000 * repeat);
  keep_others(1000 * repeat);
  keep_varying(4000 * repeat);
  sink = NULL;
}

int main(int argc, char** argv) {
  outer(argc > 1 ? atoi(argv[1]) : 1);
  return 0;
}
