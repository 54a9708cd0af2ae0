// SPDX-License-Identifier: MIT
// Forks at random moments from threads that allocate, while other threads allocate and free. The
// child allocates at once, frees blocks of its parent's other threads, starts threads of its own,
// and forks again. Between, vfork and posix_spawn run this program anew.
//
// A child that hangs is killed by its alarm, which counts as a failure.
#include "stress.h"

#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>

#define PLACES 512

extern char** environ;

static _Atomic(block_t*) places[PLACES];
static atomic_size_t forks;
static char* self;

static void exchange_some(random_t* r, size_t n) {
  for (size_t i = 0; i < n; i++) {
    block_t* mine = random_below(r, 3) != 0 ? block_new(random_size(r), random_next(r)) : NULL;
    block_free(atomic_exchange(&places[random_below(r, PLACES)], mine));
  }
}

static void* child_thread(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg + 1000);
  exchange_some(&r, 300);
  return NULL;
}

static void wait_for(pid_t child, const char* what) {
  int status;
  pid_t done;
  do done = waitpid(child, &status, 0);
  while (done < 0 && errno == EINTR);
  if (done != child) fail("waitpid: %s", strerror(errno));
  if (WIFSIGNALED(status)) fail("%s died of signal %d", what, WTERMSIG(status));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail("%s failed", what);
}

static void fork_once(random_t* r, int depth);

// Never returns.
static void be_child(random_t* r, int depth) {
  alarm(30);
  exchange_some(r, 200);
  for (size_t i = 0; i < PLACES; i++) {  // what any thread of the parent allocated
    if (random_below(r, 2) == 0) block_free(atomic_exchange(&places[i], (block_t*)NULL));
  }
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) threads[i] = start(child_thread, (void*)(uintptr_t)random_below(r, 999));
  exchange_some(r, 200);
  if (depth > 0) fork_once(r, depth - 1);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  for (size_t i = 0; i < PLACES; i++) block_free(atomic_exchange(&places[i], (block_t*)NULL));
  if (random_below(r, 2) == 0) _exit(0);
  exit(0);
}

static void fork_once(random_t* r, int depth) {
  const pid_t child = fork();
  if (child < 0) return;  // too many processes: not our matter
  if (child == 0) be_child(r, depth);
  atomic_fetch_add(&forks, 1);
  exchange_some(r, 20);
  wait_for(child, "a child");
}

// The program is this one again, which then ends at once: another might have another C library,
// which cannot have the same library preloaded.
static void spawn_once(random_t* r) {
  static char spawned[] = "spawned";
  char* const args[] = {self, spawned, NULL};
  pid_t child;
  if (random_below(r, 2) == 0) {
    if (posix_spawn(&child, self, NULL, NULL, args, environ) != 0) return;
  } else {
    child = vfork();
    if (child == 0) {
      execv(self, args);
      _exit(127);
    }
    if (child < 0) return;
  }
  wait_for(child, "a spawned program");
}

static void* body(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  while (!stress_is_over()) {
    exchange_some(&r, 100 + random_below(&r, 1000));
    const size_t what = random_below(&r, 8);
    if (what == 0) spawn_once(&r);
    else if (what < 4) fork_once(&r, random_below(&r, 4) == 0 ? 1 : 0);
  }
  return NULL;
}

int main(int argc, char** argv) {
  self = argv[0];
  if (argc == 2 && strcmp(argv[1], "spawned") == 0) {
    void* volatile p = malloc(100);
    free(p);
    return p == NULL;
  }
  stress_args(argc, argv);
  if (STRESS_TSAN) return 77;  // skipped
  setvbuf(stdout, NULL, _IONBF, 0);
  pthread_t threads[64];
  const int n = stress_threads < 64 ? stress_threads : 64;
  for (int i = 0; i < n; i++) threads[i] = start(body, (void*)(uintptr_t)(i + 1));
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
  for (size_t i = 0; i < PLACES; i++) block_free(atomic_load(&places[i]));
  printf("%zu forks\n", (size_t)forks);
  return 0;
}
