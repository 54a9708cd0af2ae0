// SPDX-License-Identifier: MIT
// Forks in a program with a library that registered handlers before the allocator's constructor ran
// (atfork_library.c): they may do what they may with the C library's own malloc. Others are registered
// by a thread that a constructor waits for (atfork_module.c).
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 3
#define FORKS 10
#define SECONDS 50

void atfork_replace(unsigned seed);
extern int atfork_calls[3];

static atomic_bool is_over;

static void* work(void* arg) {
  unsigned seed = *(unsigned*)arg;
  while (!is_over) atfork_replace(seed += 77777);
  return NULL;
}

static int child_fails(unsigned seed) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(SECONDS);
    atfork_replace(seed);
    for (size_t size = 1; size < 100000; size += size / 8 + 1) free(malloc(size));
    _exit(atfork_calls[0] != 0 && atfork_calls[2] == 1 ? 0 : 2);
  }
  int status = 0;
  return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

int main(void) {
  static unsigned seeds[THREADS] = {1, 2, 3};
  pthread_t threads[THREADS];
  if (getenv("LD_PRELOAD") != NULL && dlsym(RTLD_DEFAULT, "malloc_size") == NULL) {
    puts("the library is not there");
    return 1;
  }
  alarm(SECONDS);
#if defined(MODULE)
  if (dlopen(MODULE, RTLD_NOW) == NULL) {
    puts("the module is not there");
    return 1;
  }
#endif
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, &seeds[i]);
  int failures = 0;
  for (unsigned i = 0; i < FORKS; i++) failures += child_fails(i);
  is_over = true;
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  failures += (atfork_calls[0] != FORKS || atfork_calls[1] != FORKS);
  printf("%d forks, %d failures\n", FORKS, failures);
  return failures != 0;
}
