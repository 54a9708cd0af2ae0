// SPDX-License-Identifier: MIT
// Out of memory at every call of the OS in turn: a workload is run once to count the calls that
// can fail, then once for each of them, in a process of its own in which that call fails; again with
// all calls failing from there on; and with every k-th failing.
//
// A request may answer NULL then, with errno ENOMEM, and nothing else may happen: contents stay,
// what is freed comes back, and when the OS has memory again all requests succeed.
#include "../stress.h"

#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>

#include "heap/heap.h"
#include "mimalloc.h"
#include "mock_os.h"

#define BLOCKS 600

extern char** environ;

static block_t* blocks[BLOCKS];
static size_t refused;

static block_t* sign(void* p, size_t size, uint64_t stamp) {
  if (p == NULL) {
    check(errno == ENOMEM);
    refused++;
    return NULL;
  }
  check(errno == 0);
  block_sign((block_t*)p, size, stamp);
  return (block_t*)p;
}

static void drop(size_t i) {
  if (blocks[i] == NULL) return;
  block_check(blocks[i]);
  mi_free(blocks[i]);
  blocks[i] = NULL;
}

static void resize(size_t i, size_t size) {
  if (blocks[i] == NULL) return;
  const uint64_t stamp = blocks[i]->stamp;
  block_t* moved = (block_t*)mi_realloc(blocks[i], size);
  if (moved == NULL) {  // the old one is untouched
    check(errno == ENOMEM);
    block_check(blocks[i]);
    refused++;
    return;
  }
  check(moved->stamp == stamp);
  block_sign(moved, size, stamp);
  blocks[i] = moved;
}

static block_t* allocate(random_t* r, size_t size, mi_heap_t* heap, uint64_t stamp) {
  switch (random_below(r, 4)) {
    case 0: {
      unsigned char* p = (unsigned char*)mi_calloc(1, size);
      for (size_t i = 0; p != NULL && i < size; i++) check(p[i] == 0);
      return sign(p, size, stamp);
    }
    case 1: return sign(mi_malloc_aligned(size, (size_t)16 << random_below(r, 10)), size, stamp);
    case 2: if (heap != NULL) return sign(mi_heap_malloc(heap, size), size, stamp);
    // fall through
    default: return sign(mi_malloc(size), size, stamp);
  }
}

static void* in_thread(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  for (size_t i = 0; i < BLOCKS; i += 2) {
    errno = 0;
    drop(i);
    errno = 0;
    if (random_below(&r, 2) == 0) blocks[i] = allocate(&r, 32 + random_size(&r), NULL, i);
  }
  return NULL;
}

static void work(uint64_t stream) {
  random_t r = random_of(stream);
  mi_heap_t* heap = mi_heap_new();
  for (size_t i = 0; i < 4000; i++) {
    const size_t k = random_below(&r, BLOCKS);
    const size_t size = 32 + random_size(&r) + (random_below(&r, 200) == 0 ? 3000000 : 0);
    mock_sleep(random_below(&r, 3));
    errno = 0;
    if (blocks[k] != NULL && random_below(&r, 3) == 0) resize(k, size);
    else if (blocks[k] != NULL) drop(k);
    else blocks[k] = allocate(&r, size, heap, i);
    if (i % 1000 == 999) {
      pthread_t thread = start(in_thread, (void*)(uintptr_t)i);
      pthread_join(thread, NULL);
      mi_collect(random_below(&r, 2) == 0);
    }
  }
  if (heap != NULL) mi_heap_delete(heap);
}

static void finish(void) {
  for (size_t i = 0; i < BLOCKS; i++) drop(i);
  mi_collect(true);
  const long in_use = (long)mx_load_relaxed(&mx_subproc_main.arenas.in_use);
  // What a torn move leaves behind may be anybody's, and is not used again.
  const char* const fault = getenv("MOCK_FAULT");
  const bool may_lose =
      (fault != NULL && (strcmp(fault, "torn") == 0 || strcmp(fault, "taken") == 0));
  if (in_use != 0 && !may_lose) fail("%ld slices are lost", in_use);
  check(mock_others_are_whole());
}

static int child(void) {
  work(1);
  mock_heal();
  const size_t was = refused;
  for (size_t i = 0; i < BLOCKS; i++) {
    if (blocks[i] != NULL) block_check(blocks[i]);
  }
  work(2);
  if (refused != was) fail("refused although the OS has memory");
  finish();
  printf("%ld %zu\n", mock_calls(), refused);
  return 0;
}

// Runs a child; answers how many calls it made.
static long run(const char* self, const char* mode, const char* fault, long* refused_there) {
  char text[64] = "";
  int pipe_ends[2];
  setenv("MOCK_FAIL", mode, 1);
  setenv("MOCK_FAULT", fault, 1);
  check(pipe(pipe_ends) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 1);
  posix_spawn_file_actions_addclose(&actions, pipe_ends[0]);
  char seed[32];
  snprintf(seed, sizeof(seed), "%llu", (unsigned long long)stress_seed);
  char* const args[] = {(char*)self, (char*)"0", seed, (char*)"1", (char*)"child", NULL};
  pid_t pid;
  check(posix_spawn(&pid, self, &actions, NULL, args, environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  size_t n = 0;
  for (ssize_t got; n < sizeof(text) - 1 &&
                    (got = read(pipe_ends[0], text + n, sizeof(text) - 1 - n)) > 0;) {
    n += (size_t)got;
  }
  close(pipe_ends[0]);
  int status;
  check(waitpid(pid, &status, 0) == pid);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fail("with MOCK_FAIL=%s MOCK_FAULT=%s and seed %s the workload failed", mode, fault, seed);
  }
  long calls = 0;
  *refused_there = 0;
  check(sscanf(text, "%ld %ld", &calls, refused_there) == 2);
  return calls;
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  if (argc > 4) return child();
  long there, refusals = 0, runs = 0;
  const long calls = run(argv[0], "0", "plain", &there);
  check(there == 0 && calls > 10);
  // The first calls each, the later ones in steps that fit the time.
  enum { FAULTS = 5 };
  static const char* const faults[FAULTS] = {"plain", "torn", "taken", "uncut", "half"};
  static const char* const kinds[] = {"", "+", "/"};
  // Where addresses are scarce there are many more.
  const long least = (getenv("MOCK_SCARCE") != NULL ? 10 : 40);
  for (long n = 1; n <= calls && !(stress_is_over() && n > least); n++) {
    for (int k = 0; k < 3; k++) {
      char mode[32];
      snprintf(mode, sizeof(mode), "%ld%s", n, kinds[k]);
      for (int f = 0; f < FAULTS; f++) {
        // All ways to fail one at a time; of the others, which take longer, one in turn.
        if (f != 0 && k != 0 && f != 1 + (int)(n + k) % (FAULTS - 1)) continue;
        run(argv[0], mode, faults[f], &there);
        refusals += there;
        runs++;
      }
    }
  }
  printf("%ld calls of the OS in the workload; %ld runs with failures, %ld requests refused\n", calls,
         runs, refusals);
  check(refusals > 0);
  return 0;
}
