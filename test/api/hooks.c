// SPDX-License-Identifier: MIT
// Run-time hooks: the deferred-free function and its heartbeat, collecting, threads that begin and
// end by call, the end of the process with what its options ask for.
#include <errno.h>
#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#if !defined(_WIN32)
#include <sys/wait.h>
#endif
#include <unistd.h>

#include "api_check.h"

// ---- deferred free -----------------------------------------------------------------------------

typedef struct beats_s {
  unsigned long long last;
  size_t calls, forced, nested;
  bool inside;
} beats_t;

static void on_deferred(bool force, unsigned long long heartbeat, void* arg) {
  beats_t* const b = (beats_t*)arg;
  if (b->inside) b->nested++;
  b->inside = true;
  CHECK(heartbeat > b->last);
  b->last = heartbeat;
  b->calls++;
  if (force) b->forced++;
  void* blocks[300];  // it may allocate and free
  for (size_t i = 0; i < COUNT_OF(blocks); i++) blocks[i] = mi_malloc(i * 50);
  for (size_t i = 0; i < COUNT_OF(blocks); i++) mi_free(blocks[i]);
  b->inside = false;
}

static void* blocks[20000];

static void free_all(void) {
  for (size_t i = 0; i < COUNT_OF(blocks); i++) {
    mi_free(blocks[i]);
    blocks[i] = NULL;
  }
}

static void use_memory(void) {
  for (size_t i = 0; i < COUNT_OF(blocks); i++) blocks[i] = mi_malloc(1000);
  free_all();
}

static size_t beats_of_one_turn(beats_t* b) {
  const size_t before = b->calls;
  use_memory();
  return b->calls - before;
}

static void test_deferred(void) {
  beats_t b;
  memset(&b, 0, sizeof(b));
  mi_register_deferred_free(&on_deferred, &b);
  use_memory();
  // As regular as the work is: the same turn gives the same number of beats, or nearly so.
  const size_t first = beats_of_one_turn(&b);
  CHECK(first > 0);
  for (int i = 0; i < 5; i++) {
    const size_t next = beats_of_one_turn(&b);
    CHECK(next <= first * 2 + 1 && next * 2 + 1 >= first);
  }
  CHECK(b.forced == 0 && b.nested == 0);
  const size_t calls = b.calls;
  mi_collect(true);
  CHECK(b.forced == 1 && b.calls == calls + 1 && b.nested == 0);
  mi_register_deferred_free(NULL, NULL);
  use_memory();
  mi_collect(true);
  CHECK(b.calls == calls + 1);
}

// A thread that ends while it is called leaves those after it their own calls.
static void ends_thread(bool force, unsigned long long heartbeat, void* arg) {
  (void)force, (void)heartbeat;
  if ((*(int*)arg)++ == 0) pthread_exit(NULL);
}

static void* uses_memory(void* arg) {
  use_memory();
  return arg;
}

static void test_ends_inside(void) {
  int calls = 0;
  mi_register_deferred_free(&ends_thread, &calls);
  for (int i = 0; i < 2; i++) {
    pthread_t t;
    const int before = calls;
    CHECK(pthread_create(&t, NULL, &uses_memory, NULL) == 0 && pthread_join(t, NULL) == 0);
    CHECK(calls > before);
    free_all();
  }
  mi_register_deferred_free(NULL, NULL);
}

// ---- threads -----------------------------------------------------------------------------------

static int64_t threads_now(void) {
  mi_stats_t stats;
  mi_stats_init(&stats);
  CHECK(mi_stats_get(&stats));
  return stats.threads.current;
}

static void* run_thread(void* arg) {
  const int64_t before = threads_now();
  mi_thread_init();
  mi_thread_init();
  CHECK(threads_now() == before + 1);
  void* const kept = mi_malloc(100);
  void* const p = mi_malloc(200);
  memset(p, 3, 200);
  if (arg != NULL) mi_thread_set_in_threadpool();
  mi_thread_done();
  mi_thread_done();
  CHECK(threads_now() == before && ((char*)p)[199] == 3);
  mi_free(p);
  void* const q = mi_malloc(300);  // which begins anew
  CHECK(q != NULL && threads_now() == before + 1);
  mi_free(q);
  return kept;
}

static void test_threads(void) {
  for (int i = 0; i < 20; i++) {
    pthread_t t;
    void* kept = NULL;
    CHECK(pthread_create(&t, NULL, &run_thread, i % 2 == 0 ? NULL : &t) == 0);
    CHECK(pthread_join(t, &kept) == 0 && kept != NULL);
    mi_free(kept);
  }
  CHECK(!mi_is_redirected());
}

static void test_reduce(void) {
  static void* blocks[3000];
  for (size_t i = 0; i < COUNT_OF(blocks); i++) blocks[i] = mi_malloc(3000);
  mi_stats_t before, after;
  mi_stats_init(&before);
  mi_stats_init(&after);
  CHECK(mi_stats_get(&before));
  for (size_t i = 0; i < COUNT_OF(blocks); i += 2) mi_free(blocks[i]);
  mi_collect_reduce(SIZE_MAX / 2);
  mi_collect_reduce(0);
  CHECK(mi_stats_get(&after));
  CHECK(after.pages_abandoned.current > before.pages_abandoned.current);
  for (size_t i = 1; i < COUNT_OF(blocks); i += 2) mi_free(blocks[i]);
}

// Before its first allocation a thread has nothing to give up.
static void* reduce_first(void* arg) {
  mi_collect_reduce(0);
  return arg;
}

static void test_reduce_first(void) {
  pthread_t t;
  char mark;
  void* result = NULL;
  CHECK(pthread_create(&t, NULL, &reduce_first, &mark) == 0);
  CHECK(pthread_join(t, &result) == 0 && result == &mark);
}

// ---- the end of the process --------------------------------------------------------------------

// An emulator that runs this program may be unable to start it anew: the last tests are left out.
#define NO_EXEC 77

// Runs this program once more with one variable in its environment; what it writes to stderr.
#if defined(_WIN32)
static char self[260];

static void output_of_child(const char* name, const char* value, const char* role, char* text,
                            size_t size) {
  char command[400];
  _putenv_s(name, value);
  snprintf(command, sizeof(command), "\"\"%s\" %s 2>&1 >nul\"", self, role);
  FILE* const child = _popen(command, "r");
  CHECK(child != NULL);
  text[fread(text, 1, size - 1, child)] = 0;
  CHECK(_pclose(child) == 0);
  _putenv_s(name, "");
}
#else
static void output_of_child(const char* name, const char* value, const char* role, char* text,
                            size_t size) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    setenv(name, value, 1);
    execl("/proc/self/exe", "hooks", role, (char*)NULL);
    _exit(errno == ENOEXEC ? NO_EXEC : 9);
  }
  close(ends[1]);
  size_t length = 0;
  for (ssize_t n; (n = read(ends[0], text + length, size - 1 - length)) > 0;) length += (size_t)n;
  text[length] = 0;
  close(ends[0]);
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
  if (WEXITSTATUS(status) == NO_EXEC) {
    fprintf(stderr, "hooks: the end of the process is not tested: no exec of this program here\n");
    exit(NO_EXEC);
  }
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

static int play_role(const char* role) {
  void* const p = mi_malloc(100000);
  memset(p, 1, 100000);
  printf("a stream with a buffer\n");
  if (strcmp(role, "done") == 0) {
    mi_process_done();
    mi_process_done();
    void* const q = mi_malloc(100);  // calls go on working
    CHECK(q != NULL);
    mi_free(q);
  }
  return 0;
}

static size_t count(const char* text, const char* part) {
  size_t n = 0;
  for (; (text = strstr(text, part)) != NULL; text += strlen(part)) n++;
  return n;
}

static void test_process_end(void) {
  static char text[1 << 16];
  output_of_child("NOTHING", "1", "plain", text, sizeof(text));
  CHECK(text[0] == 0);
  output_of_child("MIMALLOC_SHOW_STATS", "1", "plain", text, sizeof(text));
  CHECK(count(text, "reserved") == 1 && count(text, "committed") == 1);
  output_of_child("MIMALLOC_SHOW_STATS", "1", "done", text, sizeof(text));
  CHECK(count(text, "reserved") == 1);
  output_of_child("MIMALLOC_VERBOSE", "1", "plain", text, sizeof(text));
  CHECK(count(text, "process done: 0x") == 1);
  output_of_child("MIMALLOC_DESTROY_ON_EXIT", "1", "plain", text, sizeof(text));
  CHECK(text[0] == 0);
  output_of_child("MIMALLOC_DESTROY_ON_EXIT", "1", "done", text, sizeof(text));
  output_of_child("MIMALLOC_DESTROY_ON_EXIT", "2", "plain", text, sizeof(text));
  output_of_child("MIMALLOC_RESERVE_OS_MEMORY", "64MiB", "plain", text, sizeof(text));
  CHECK(text[0] == 0);
}

int main(int argc, char** argv) {
  if (argc > 1) return play_role(argv[1]);
#if defined(_WIN32)
  _fullpath(self, argv[0], sizeof(self));
#endif
  mi_process_init();
  test_deferred();
  test_ends_inside();
  test_threads();
  test_reduce();
  test_reduce_first();
  test_process_end();
  return 0;
}
