// SPDX-License-Identifier: MIT
// The background thread may be stopped before the one that starts it goes on: this program's own
// pthread_create waits until the thread has run, and stops it. Then nobody may count on it: what
// frees memory has to give it back by itself. None is started for an option that was taken back, and
// what starting one allocates is in no heap that the program may destroy. On a busy machine, where it
// waits for a processor, it looks as often as elsewhere.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/mimalloc-stats.h"
#include "../../include/mimalloc.h"
#include "../../src/arena/arena.h"
#include "../../src/base/hooks.h"
#include "../../src/os/thread.h"
#include "../../src/page/holes.h"
#include "../../src/service/give_back.h"

typedef int create_fn(pthread_t* thread, const pthread_attr_t* attr, void* (*body)(void*),
                      void* arg);

static int created, failures;
static bool is_let_run, needs_large_stack;
static mi_heap_t* main_heap;
static mi_heap_t* home;  // of what the last start of a thread allocated

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

int pthread_create(pthread_t* thread, const pthread_attr_t* attr, void* (*body)(void*), void* arg) {
  create_fn* create;
  *(void**)(void*)&create = dlsym(RTLD_NEXT, "pthread_create");
  void* const block = mi_malloc(100);  // as the C library does, which keeps it beyond the thread's end
  home = mi_heap_of(block);
  mi_free(block);
  if (needs_large_stack && attr != NULL) return EINVAL;
  const int result = create(thread, attr, body, arg);
  created++;
  if (!is_let_run) mi_option_set(mi_option_background_purge, 0);
  return result;
}

static void use_memory(void) {
  void* blocks[64];
  for (int i = 0; i < 64; i++) blocks[i] = mi_malloc(150000);
  for (int i = 0; i < 64; i++) mi_free(blocks[i]);
}

// The option is taken back when a slow allocation has begun to start the thread already.
static void test_taken_back(void) {
  is_let_run = true;
  mi_option_set(mi_option_background_purge, 1);
  mx_visit_fn* const visit = mx_load_relaxed(&mx_visits.slow_visit);
  EXPECT(visit != NULL);
  if (visit == NULL) return;
  void* blocks[64];
  mi_option_set(mi_option_background_purge, 0);
  for (int i = 0; i < 64; i++) blocks[i] = mi_malloc(300000);
  visit();
  EXPECT(!mx_scavenger_is_running());
  EXPECT(mx_load_relaxed(&mx_visits.slow_visit) == NULL);
  for (int i = 0; i < 64; i++) mi_free(blocks[i]);
}

static void* use_in_subproc(void* arg) {
  mi_subproc_add_current_thread(*(mi_subproc_id_t*)arg);
  mi_option_set(mi_option_background_purge, 1);
  mi_heap_t* const heap = mi_heap_main();
  EXPECT(heap != main_heap);
  use_memory();
  EXPECT(mx_scavenger_is_running() && home == main_heap);
  void* const block = mi_malloc(100);
  EXPECT(mi_heap_of(block) == heap);
  mi_free(block);
  mi_option_set(mi_option_background_purge, 0);
  return NULL;
}

// Threads of another sub-process, and those whose malloc has another heap, start it outside of that,
// and are there again afterwards.
static void test_other_heaps(void) {
  is_let_run = true;
  main_heap = mi_heap_main();
  void* blocks[64];  // so many that the thread is worth its stack
  for (int i = 0; i < 64; i++) blocks[i] = mi_malloc(60000);
  mi_subproc_id_t id = mi_subproc_new();
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, &use_in_subproc, &id) == 0);
  pthread_join(thread, NULL);
  mi_subproc_destroy(id);
  mi_option_set(mi_option_background_purge, 1);
  mi_heap_t* const heap = mi_heap_new();
  mi_heap_t* const before = mi_heap_set_default(heap);
  const int had = created;
  use_memory();
  EXPECT(created == had + 1 && mx_scavenger_is_running());
  EXPECT(home == main_heap);
  EXPECT(mi_heap_set_default(before) == heap);
  mi_heap_destroy(heap);
  mi_option_set(mi_option_background_purge, 0);
  for (int i = 0; i < 64; i++) mi_free(blocks[i]);
}

// A program whose thread-local data do not fit on the small stack that is asked for.
static void test_large_stack(void) {
  is_let_run = needs_large_stack = true;
  const int had = created;
  mi_option_set(mi_option_background_purge, 1);
  use_memory();
  EXPECT(created == had + 1 && mx_scavenger_is_running());
  mi_option_set(mi_option_background_purge, 0);
  EXPECT(!mx_scavenger_is_running());
  needs_large_stack = false;
}

static pthread_t main_thread;

// A round takes longer than its work.
static void waits(void) {
  if (!pthread_equal(pthread_self(), main_thread)) usleep(600000);
}

static long long purged(void) {
  mi_stats_t stats;
  mi_stats_init(&stats);
  return mi_stats_get(&stats) ? (long long)stats.purged.total : 0;
}

static void test_waits_for_a_processor(void) {
  static void* blocks[20000];
  if (!MX_HOLES) return;
  const int kept_every = 20 * (int)(mx_facts.os_page / 4096);  // most OS pages have no live block
  is_let_run = true;
  main_thread = pthread_self();
  mi_option_set(mi_option_background_purge, 1);
  use_memory();
  EXPECT(mx_scavenger_is_running());
  mx_store_relaxed(&mx_visits.slow_visit, &waits);
  for (int i = 0; i < 20000; i++) blocks[i] = mi_malloc(1000);
  for (int i = 0; i < 20000; i++) {
    if (i % kept_every != 0) mi_free(blocks[i]);
  }
  const long long before = purged();
  int seconds = 0;
  while (purged() - before < 10000000 && seconds < 40) seconds += (int)(sleep(1) == 0);
  EXPECT(seconds < 40);
  mx_store_relaxed(&mx_visits.slow_visit, (mx_visit_fn*)NULL);
  for (int i = 0; i < 20000; i += kept_every) mi_free(blocks[i]);
  mi_option_set(mi_option_background_purge, 0);
}

// A child that the C library does not know of has no such thread, and does not wait for one.
static void test_unknown_child(void) {
#if defined(__linux__) && defined(SYS_clone)
  is_let_run = true;
  mi_option_set(mi_option_background_purge, 1);
  use_memory();
  EXPECT(mx_scavenger_is_running());
  const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    alarm(5);
    mx_scavenger_stop();
    _exit(mx_scavenger_is_running() || mx_load_acquire(&mx_arenas_background) != NULL);
  }
  int status = 1;
  EXPECT(waitpid((pid_t)child, &status, 0) == child && status == 0);
  EXPECT(mx_scavenger_is_running());
  mi_option_set(mi_option_background_purge, 0);
#endif
}

// Where a fork lay in a call, what threads that vanished left is set right when that is over, by the
// thread that is in it: none may begin another call before.
static void test_inside_a_call(void) {
  is_let_run = true;
  mi_option_set(mi_option_background_purge, 1);
  use_memory();
  EXPECT(mx_scavenger_is_running());
  mx_call_enter();
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    created = failures = 0;
    use_memory();
    EXPECT(created == 0 && !mx_scavenger_is_running());
    mx_call_leave();
    use_memory();
    EXPECT(created == 1 && mx_scavenger_is_running());
    fflush(stdout);
    _exit(failures != 0);
  }
  mx_call_leave();
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  mi_option_set(mi_option_background_purge, 0);
}

int main(void) {
  for (int round = 1; round <= 20; round++) {
    mi_option_set(mi_option_background_purge, 1);
    use_memory();
    EXPECT(created == round);
    EXPECT(!mx_scavenger_is_running());
    EXPECT(mx_load_acquire(&mx_arenas_background) == NULL);
  }
  test_taken_back();
  test_other_heaps();
  test_large_stack();
  test_waits_for_a_processor();
  test_unknown_child();
  test_inside_a_call();
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
