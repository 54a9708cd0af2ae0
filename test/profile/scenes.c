// SPDX-License-Identifier: MIT
// What triggers profiles: the scene is the first argument. Each keeps 1 MiB from kept() at least.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SIZE ((size_t)64 << 10)
#define COUNT 1024

static void* blocks[COUNT];
void* volatile keep[16];

__attribute__((noinline)) static void kept(void) {
  for (int i = 0; i < 16; i++) keep[i] = malloc(SIZE);
}

__attribute__((noinline)) static void grow(void) {
  for (int i = 0; i < COUNT; i++) blocks[i] = malloc(SIZE);
  for (int i = 0; i < COUNT; i++) free(blocks[i]);
}

static void ready(void) {
  printf("ready\n");
  fflush(stdout);
}

static void busy(void) {
  ready();
  for (;;) {
    grow();
    usleep(1000);
  }
}

static void taken(int number) { (void)number; }

// Until the address space is used up, in large blocks and then in small ones.
static void run_out(void) {
  const struct rlimit limit = {(rlim_t)400 << 20, (rlim_t)400 << 20};
  if (setrlimit(RLIMIT_AS, &limit) != 0) exit(77);
  size_t* last = NULL;
  for (size_t size = (size_t)1 << 20; size >= 32; size /= 2) {
    for (size_t* p; (p = malloc(size)) != NULL; last = p) *p = (size_t)last;
  }
  if (errno != ENOMEM) exit(3);
  while (last != NULL) {
    size_t* const next = (size_t*)*last;
    free(last);
    last = next;
  }
}

static void* on_small_stack(void* arg) {
  (void)arg;
  for (int i = 0; i < 64; i++) blocks[i] = malloc(SIZE);
  return NULL;
}

static void small_stack(void) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 16384);
  if (pthread_create(&thread, &attributes, &on_small_stack, NULL) != 0) exit(3);
  pthread_join(thread, NULL);
}

int main(int argc, char** argv) {
  const char* const scene = (argc > 1 ? argv[1] : "");
  kept();
  if (strcmp(scene, "own") == 0) {
    // A handler that the program sets later than the library is the program's.
    signal(SIGUSR2, &taken);
    ready();
    raise(SIGUSR2);
    grow();
  } else if (strcmp(scene, "busy") == 0) {
    busy();
  } else if (strcmp(scene, "idle") == 0) {
    for (int i = 0; i < COUNT; i++) blocks[i] = memset(malloc(SIZE), 1, SIZE);
    ready();
    for (;;) pause();
  } else if (strcmp(scene, "grow") == 0) {
    grow();
    grow();
  } else if (strcmp(scene, "out") == 0) {
    run_out();
    grow();
  } else if (strcmp(scene, "stack") == 0) {
    small_stack();
  } else {
    return 2;
  }
  return 0;
}
