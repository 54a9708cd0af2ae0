// SPDX-License-Identifier: MIT
// A program whose calls of malloc are known. What it does is its first argument.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 1000, BLOCKS = 500 };

static void* volatile kept;
static void* passed[BLOCKS];
static pthread_barrier_t barrier;

static void* must(void* p) {
  if (p == NULL) abort();
  return p;
}

// 6 allocations, a resize, 6 frees, a usable size: 14 calls a round.
static void calls(void) {
  for (int i = 0; i < ROUNDS; i++) {
    char* a = must(malloc(777));
    memset(a, 1, 777);
    char* b = must(calloc(7, 111));
    void* c = NULL;
    if (posix_memalign(&c, 4096, 3000) != 0) abort();
    char* d = must(aligned_alloc(64, 640));
    char* e = must(memalign(256, 100));
    char* f = must(malloc(0));
    if (malloc_usable_size(a) < 777 || b[700] != 0) abort();
    a = must(realloc(a, 200000));
    if (a[776] != 1) abort();
    free(NULL);
    free(a), free(b), free(c), free(d), free(e), free(f);
  }
}

// 4 MiB of which one MiB is written, or none.
static void large(int written) {
  for (int i = 0; i < 20; i++) {
    char* p = must(malloc(4 << 20));
    if (written) memset(p, 1, 1 << 20);
    kept = p;
    free(p);
  }
}

static void* makes(void* unused) {
  for (int i = 0; i < BLOCKS; i++) passed[i] = must(malloc(96));
  pthread_barrier_wait(&barrier);
  return unused;
}

static void* frees(void* unused) {
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < BLOCKS; i++) free(passed[i]);
  return unused;
}

// Each block is allocated by one thread and freed by another.
static void threads(void) {
  for (int i = 0; i < 8; i++) {
    pthread_t a, b;
    pthread_barrier_init(&barrier, NULL, 2);
    if (pthread_create(&a, NULL, makes, NULL) != 0 || pthread_create(&b, NULL, frees, NULL) != 0) {
      abort();
    }
    pthread_join(a, NULL);
    pthread_join(b, NULL);
  }
}

// The child's 5,000 blocks are its own; with a program to start it starts that.
static void forks(char* program) {
  void* before = must(malloc(1234));
  const pid_t child = fork();
  if (child == 0) {
    free(before);
    for (int i = 0; i < 5000; i++) free(must(realloc(must(malloc(55)), 66)));
    if (program != NULL) execl(program, program, "calls", (char*)NULL);
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) abort();
  free(before);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "calls") == 0) calls();
  if (strcmp(what, "large") == 0) large(1);
  if (strcmp(what, "untouched") == 0) large(0);
  if (strcmp(what, "threads") == 0) threads();
  if (strcmp(what, "fork") == 0) forks(NULL);
  if (strcmp(what, "exec") == 0) forks(argv[0]);
  if (strcmp(what, "leak") == 0) for (int i = 0; i < 3000; i++) kept = must(malloc(1000));
  if (strcmp(what, "die") == 0) {
    calls();
    raise(SIGKILL);
  }
  return strcmp(what, "status") == 0 ? 42 : 0;
}
