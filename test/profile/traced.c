// SPDX-License-Identifier: MIT
// A program that a tracer looks at: it does the same three times, and stops before each. It prints
// the addresses of its large blocks.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGE ((size_t)4 << 20)
#define LARGE_COUNT 20
#define SMALL 100
#define SMALL_COUNT 400000

static void* large[LARGE_COUNT];
static void* small[SMALL_COUNT];

static void allocate(void) {
  for (int i = 0; i < LARGE_COUNT; i++) {
    large[i] = malloc(LARGE);
    printf("%p\n", large[i]);
  }
  for (int i = 0; i < SMALL_COUNT; i++) small[i] = malloc(SMALL);
}

// What a child frees of its parent's is not told of; what is its own is.
static void fork_off(void) {
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < LARGE_COUNT; i++) free(large[i]);
    for (int i = 0; i < SMALL_COUNT; i++) free(small[i]);
    void* volatile own = malloc(LARGE + 1);
    free(own);
    _exit(0);
  }
  int status = 1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) abort();
}

int main(void) {
  for (int stage = 0; stage < 3; stage++) {
    raise(SIGSTOP);
    allocate();
    fflush(stdout);
    fork_off();
    for (int i = 0; i < LARGE_COUNT; i++) free(large[i]);
    for (int i = 0; i < SMALL_COUNT; i++) free(small[i]);
    // In place or elsewhere, it ends once more than that.
    void* p = realloc(malloc(3000), 2900);
    p = realloc(p, LARGE + 2);
    p = realloc(p, LARGE + 3);  // stays
    free(p);
  }
  return 0;
}
