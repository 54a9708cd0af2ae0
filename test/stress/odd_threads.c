// SPDX-License-Identifier: MIT
// Threads of the less common kinds: 2,000 at once; cancelled ones; ones that signals interrupt
// while they allocate (the handler only reads blocks); ones made by clone, of which libc knows
// nothing; threads that end by pthread_exit from deep inside.
#include "stress.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

// ---- many at once --------------------------------------------------------------------------------

#define MANY 2000
static pthread_barrier_t all_there;
static block_t* of_many[MANY];

static void* one_of_many(void* arg) {
  const size_t number = (size_t)(uintptr_t)arg;
  random_t r = random_of(number);
  of_many[number] = block_new(32 + random_below(&r, 4000), number);
  pthread_barrier_wait(&all_there);  // now all of them live
  block_free(of_many[(number + 1) % MANY]);
  block_free(block_new(random_size(&r), 3));
  return NULL;
}

static void many(size_t count) {
  static pthread_t threads[MANY];
  pthread_barrier_init(&all_there, NULL, (unsigned)count);
  for (size_t i = 0; i < count; i++) threads[i] = start(one_of_many, (void*)i);
  for (size_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&all_there);
  printf("%zu threads at once\n", count);
}

// ---- cancellation --------------------------------------------------------------------------------

static void free_it(void* p) { block_free(*(block_t**)p); }

static void* cancelled(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  for (;;) {
    block_t* b = block_new(random_size(&r), 11);
    pthread_cleanup_push(free_it, &b);
    usleep(50);  // where it can be cancelled
    pthread_cleanup_pop(1);
    if (random_below(&r, 500) == 0) pthread_exit(block_new(64, 12));
  }
}

static void cancel(double until) {
  random_t r = random_of(77);
  size_t count = 0;
  while (stress_time() < until) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) threads[i] = start(cancelled, (void*)(uintptr_t)++count);
    usleep((useconds_t)random_below(&r, 3000));
    for (int i = 0; i < 8; i++) {
      void* result;
      pthread_cancel(threads[i]);
      pthread_join(threads[i], &result);
      if (result != PTHREAD_CANCELED) block_free((block_t*)result);
    }
  }
  printf("%zu threads cancelled\n", count);
}

// ---- signals -------------------------------------------------------------------------------------

static _Atomic(block_t*) watched[16];
static atomic_size_t signals;
static atomic_bool stop;

static void on_signal(int number) {
  (void)number;
  for (int i = 0; i < 16; i++) {
    const block_t* b = atomic_load(&watched[i]);
    if (b != NULL && b->size < 32) abort();
  }
  atomic_fetch_add(&signals, 1);
}

static void* interrupted(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  while (!stop) block_free(block_new(random_size(&r), 21));
  return NULL;
}

static void interrupt(double until) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, NULL);
  for (int i = 0; i < 16; i++) atomic_store(&watched[i], block_new(100, 22));
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) threads[i] = start(interrupted, (void*)(uintptr_t)(i + 1));
  while (stress_time() < until) {
    for (int i = 0; i < 4; i++) pthread_kill(threads[i], SIGUSR1);
    usleep(20);
  }
  stop = true;
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 16; i++) block_free(atomic_load(&watched[i]));
  printf("%zu signals\n", (size_t)signals);
}

// ---- clone without libc --------------------------------------------------------------------------

// A process of its own memory that libc's fork does not make: no handler runs before or after.
static int cloned(void* arg) {
  random_t r = random_of(5);
  block_free((block_t*)arg);
  for (int i = 0; i < 200; i++) block_free(block_new(random_size(&r), 31));
  _exit(0);
}

// One that shares memory while its parent waits, as vfork does.
static int cloned_shared(void* arg) {
  block_t** const slot = (block_t**)arg;
  block_free(slot[0]);
  slot[0] = block_new(500, 32);
  return 0;
}

static void clone_some(double until) {
  const size_t stack_size = 256 * 1024;
  char* stack = (char*)mmap(NULL, stack_size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  check(stack != MAP_FAILED);
  size_t count = 0;
  while (stress_time() < until) {
    block_t* slot[1] = {block_new(300, 33)};
    int status = 0;
    int child = clone(cloned, stack + stack_size, SIGCHLD, slot[0]);
    check(child > 0 && waitpid(child, &status, 0) == child);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    child = clone(cloned_shared, stack + stack_size, CLONE_VM | CLONE_VFORK | SIGCHLD, slot);
    check(child > 0 && waitpid(child, &status, 0) == child);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    block_free(slot[0]);
    count += 2;
  }
  munmap(stack, stack_size);
  printf("%zu clones\n", count);
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  setvbuf(stdout, NULL, _IONBF, 0);
  const double share = stress_seconds / 3;
  if (!STRESS_TSAN) cancel(share);
  interrupt(share * 2);
  if (!STRESS_TSAN) clone_some(share * 3);
  many(MANY);
  return 0;
}
