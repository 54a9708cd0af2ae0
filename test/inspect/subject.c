// SPDX-License-Identifier: MIT
// A program with a heap of known contents, to be looked at from outside.
//
//   subject wait       says where its blocks are, and waits for the end of its input
//   subject crash      the same, then damages a free block and crashes in malloc
//   subject grow MIB   has so many MiB of small blocks, and waits
//   subject busy       says it, and waits while threads allocate and free
//   subject absent     has 4 GiB that it never touched, and waits
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define KEPT 1000
#define LOST 50
#define LAST 1000
#define TABLE (634880 / (int)sizeof(void*))

static void* kept[KEPT];
static void* huge;
static void* inner;  // into the middle of a block
static void** table;  // as long as its OS pages, and full of pointers only at its end
static void* absent;

__attribute__((noinline)) static void* make(size_t size) {
  void* const p = malloc(size);
  if (p == NULL) abort();
  return memset(p, 0, size);
}

// Blocks of which no pointer stays but to one another, in pairs: each has the other's address. A
// pair or so may still be in a register or on the stack.
__attribute__((noinline)) static void lose(void) {
  for (int i = 0; i < LOST / 2; i++) {
    void** const p = (void**)make(5000);
    void** const q = (void**)make(5000);
    p[0] = q;
    q[0] = p;
  }
}

__attribute__((noinline)) static void make_table(void) {
  table = (void**)make(TABLE * sizeof(void*));
  for (int i = 1; i <= LAST; i++) table[TABLE - i] = make(900);
}

// Overwrites what calls left on the stack.
__attribute__((noinline)) static void clear_stack(void) {
  volatile char room[32 * 1024];
  memset((char*)room, 0, sizeof(room));
}

static pthread_barrier_t barrier;

static void* work(void* arg) {
  enum { COUNT = 3000 };
  void** const own = (void**)make(COUNT * sizeof(void*));
  for (int i = 0; i < COUNT; i++) own[i] = make(700);
  for (int i = 0; i < COUNT; i++) {
    if (i % 4 != 0) {
      free(own[i]);
      own[i] = NULL;
    }
  }
  pthread_barrier_wait(&barrier);
  pause();
  return arg == own ? own : NULL;
}

static void* be_busy(void* arg) {
  enum { COUNT = 500 };
  void** const own = (void**)arg;
  for (unsigned n = 1; n != 0; n++) {
    void** const place = &own[n * 2654435761u % COUNT];
    free(*place);
    *place = make(16 + n % 200 * 5);
  }
  return NULL;
}

static void grow(size_t size) {
  void** last = NULL;
  for (size_t n = 0; n < size; n += 64) {
    void** const p = (void**)make(64);
    p[0] = last;
    last = p;
  }
  kept[0] = last;
}

// Puts a wrong link into a free block and asks for blocks until it is taken.
static void crash(void) {
  const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_CORE, &all);
  void** const a = (void**)malloc(96);
  void** const b = (void**)malloc(96);
  free(a);
  free(b);
  memset(b, 0x41, 16);
  for (int i = 0; i < 100000; i++) make(96);
  abort();
}

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  for (int i = 0; i < KEPT; i++) kept[i] = make(300);
  huge = make(3 << 20);
  inner = (char*)make(200) + 40;
  void* const freed = make(2000);
  const uintptr_t was = (uintptr_t)freed;
  make_table();
  lose();
  clear_stack();
  pthread_t thread;
  pthread_barrier_init(&barrier, NULL, 2);
  if (pthread_create(&thread, NULL, work, NULL) != 0) return 1;
  pthread_barrier_wait(&barrier);
  if (strcmp(argv[1], "grow") == 0) grow((size_t)atol(argv[2]) << 20);
  if (strcmp(argv[1], "absent") == 0 && (absent = calloc(4096, 1 << 20)) == NULL) return 77;
  free(freed);
  printf("kept %p\nhuge %p\ninner %p\nlast %p\nfreed 0x%lx\n", kept[5], huge, inner,
         table[TABLE - 1], (unsigned long)was);
  fflush(stdout);
  if (strcmp(argv[1], "crash") == 0) crash();
  for (int i = 0; i < 3 && strcmp(argv[1], "busy") == 0; i++) {
    if (pthread_create(&thread, NULL, be_busy, make(500 * sizeof(void*))) != 0) return 1;
  }
  char c;
  return read(0, &c, 1) < 0;
}
