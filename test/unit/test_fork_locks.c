// SPDX-License-Identifier: MIT
// A fork while another thread holds one of the library's locks: it waits for each, and its child is
// whole; where a lock is never let go it goes on without, and the child may end or run a program.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/mimalloc.h"
#include "../../src/alloc/guarded.h"
#include "../../src/alloc/harden.h"
#include "../../src/api/handles.h"
#include "../../src/heap/fork.h"
#include "../../src/heap/os_pages.h"
#include "../../src/heap/subproc.h"
#include "../../src/heap/theap_record.h"
#include "../../src/heap/thread_life.h"
#include "../../src/mem/pagemap.h"
#include "../../src/mem/settings.h"
#include "../../src/mem/vmem.h"
#include "../../src/os/os.h"
#include "../../src/page/holes.h"
#include "../../src/profile/profile.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

#define LOCKS_MOST 40
#define HOLD_MSECS 30  // longer than one try
#define FOR_GOOD 0     // until the fork is over

static mx_lock_t* locks[LOCKS_MOST];
static int count;

static bool keep(mx_lock_t* lock) {
  if (count < LOCKS_MOST) locks[count++] = lock;
  return true;
}

static void collect_locks(mi_heap_t* heap) {
  keep(&mx_subproc_list_lock);
  keep(&mx_subproc_main.lock);
  keep(&mx_subproc_main.main_heap.lock);
  keep(&mx_api_heap(heap)->lock);
  keep(&mx_subproc_main.arenas.lock);
  EXPECT(mx_holes_visit_locks(&keep) && mx_thread_visit_locks(&keep) && mx_theap_visit_locks(&keep));
  EXPECT(mx_os_pages_visit_locks(&keep) && mx_pagemap_visit_locks(&keep));
  EXPECT(mx_meta_visit_locks(&keep) && mx_zero_sized_visit_locks(&keep));
  EXPECT(mx_guarded_visit_locks(&keep));
  if (MX_READ_ONLY) EXPECT(mx_settings_visit_locks(&keep));
}

// ---- a thread that holds some ------------------------------------------------------------------

typedef struct holder_s {
  mx_lock_t *first, *second;
  uint64_t msecs;
  mx_atomic(int) holds, has_ended, has_forked;
} holder_t;

static void* hold(void* arg) {
  holder_t* const h = (holder_t*)arg;
  mx_lock_acquire(h->first);
  if (h->second != NULL) mx_lock_acquire(h->second);
  mx_store_release(&h->holds, 1);
  const uint64_t begin = mx_os_clock_msecs();
  while (h->msecs == FOR_GOOD ? mx_load_acquire(&h->has_forked) == 0
                              : mx_os_clock_msecs() - begin < h->msecs) {
    usleep(1000);
  }
  mx_store_release(&h->has_ended, 1);
  if (h->second != NULL) mx_lock_release(h->second);
  mx_lock_release(h->first);
  return NULL;
}

static int allocates(void) {
  void* p[50];
  mi_heap_t* const heap = mi_heap_new();
  for (size_t i = 0; i < 50; i++) {
    p[i] = (i % 2 == 0 ? mi_heap_malloc(heap, 100 * i * i + 1) : mi_malloc(100 * i * i + 1));
    if (p[i] == NULL) return 1;
    memset(p[i], 1, 100 * i * i + 1);
  }
  for (size_t i = 0; i < 50; i++) mi_free(p[i]);
  mi_heap_destroy(heap);
  mi_collect(true);
  return 0;
}

static void fork_beside(holder_t* h) {
  const bool is_whole = (h->msecs != FOR_GOOD);
  pthread_t thread;
  int status = -1;
  if (pthread_create(&thread, NULL, hold, h) != 0) return;
  while (mx_load_acquire(&h->holds) == 0) usleep(500);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a lock that nobody lets go
    if (is_whole) exit(allocates());
    _exit(7);
  }
  EXPECT(child > 0);
  EXPECT(mx_load_acquire(&h->has_ended) == (is_whole ? 1 : 0));
  mx_store_release(&h->has_forked, 1);
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == (is_whole ? 0 : 7));
  pthread_join(thread, NULL);
  EXPECT(allocates() == 0);
}

// A fork does not wait for a thread's own lock: in the child the record serves other threads.
static void* hold_own(void* arg) {
  holder_t* const h = (holder_t*)arg;
  mi_free(mi_malloc(100));
  h->first = &mx_tls_theap->lock;
  return hold(h);
}

static void* allocates_in_thread(void* arg) {
  *(int*)arg = allocates();
  return NULL;
}

static int threads_allocate(void) {
  int failed = 0;
  for (int i = 0; i < 3 && failed == 0; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, allocates_in_thread, &failed) != 0) return 2;
    pthread_join(thread, NULL);
  }
  return failed;
}

static void test_own_lock(void) {
  holder_t h = {NULL, NULL, FOR_GOOD, 0, 0, 0};
  pthread_t thread;
  int status = -1;
  if (pthread_create(&thread, NULL, hold_own, &h) != 0) return;
  while (mx_load_acquire(&h.holds) == 0) usleep(500);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(threads_allocate());
  }
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  mx_store_release(&h.has_forked, 1);
  pthread_join(thread, NULL);
}

// What another thread's profile had taken of the memory that is kept for one is there again in the child.
static int has_whole_reserve(void) {
  const struct rlimit none = {0, 0};
  const size_t most = 3 * MX_MIB;
  mx_prof_keep_reserve();
  if (setrlimit(RLIMIT_AS, &none) != 0) return 0;
  void* const p = mx_prof_map(most);
  if (p == NULL) return 1;
  const bool is_full = (mx_prof_map(most) == NULL);
  mx_prof_scratch_after_fork();
  void* const again = mx_prof_map(most);
  if (is_full && again != p) return 2;
  mx_prof_unmap(again, most);
  return is_full && mx_prof_map(most) != p ? 3 : 0;
}

static void test_reserve(void) {
  int status = -1;
  const pid_t child = fork();
  if (child == 0) _exit(has_whole_reserve());
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

#if defined(__SANITIZE_THREAD__)
#define HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#endif
#endif

// A handler that stands between the library's and the fork ends heaps: what the fork had of them it
// has no more, and the thread is in no call when the fork is over.
static void test_ended_heaps(void) {
  mi_heap_t* const heap = mi_heap_new();
  const mi_subproc_id_t id = mi_subproc_new();
  mx_heap_t* const record = mx_api_heap(heap);
  mx_subproc_t* const subproc = mx_api_subproc(id);
  EXPECT(heap != NULL && subproc != NULL && mx_call_depth == 0);
  mi_free(mi_heap_malloc(heap, 100));
  mx_fork_begin();
  EXPECT(mx_heap_before_fork() && mx_lock_is_mine(&record->lock));
  mi_free(mi_malloc(100000));
  mi_heap_destroy(heap);
  mi_subproc_destroy(id);
  mx_heap_after_fork_parent();
  mx_fork_end();
  EXPECT(mx_call_depth == 0 && mx_load_relaxed(&record->lock.holder) == 0);
  EXPECT(mx_load_relaxed(&subproc->lock.holder) == 0 && record->lock.fork_level == 0);
  EXPECT(mx_load_relaxed(&subproc->arenas.lock.holder) == 0);
  EXPECT(mx_load_relaxed(&subproc->main_heap.lock.holder) == 0);
}

// Of two calls inside of each other only the outer one passes by a lock that the fork has.
static void test_passing(void) {
  static mx_lock_t lock;
  mx_fork_begin();
  EXPECT(mx_fork_take(&lock) && mx_lock_try(&lock) && !mx_lock_try(&lock));
  mx_lock_release(&lock);
  EXPECT(mx_lock_is_mine(&lock) && mx_lock_try(&lock));
  mx_lock_release(&lock);
  mx_fork_let_go(&lock);
  mx_fork_end();
  EXPECT(!mx_lock_is_mine(&lock) && mx_call_depth == 0);
}

int main(void) {
#if defined(HAS_TSAN)
  return 77;  // its run-time cannot follow forks with threads
#endif
  mi_heap_t* const heap = mi_heap_new();
  void* const p = mi_heap_malloc(heap, 100);
  collect_locks(heap);
  for (int i = 0; i < count; i++) {
    holder_t one = {locks[i], NULL, HOLD_MSECS, 0, 0, 0};
    const int before = failures;
    fork_beside(&one);
    if (failures != before) printf("  lock %d\n", i);
  }
  holder_t both = {&mx_subproc_list_lock, &mx_subproc_main.lock, FOR_GOOD, 0, 0, 0};
  fork_beside(&both);
  // The child draws a new key, whoever had the settings open.
  holder_t settings = {locks[count - 1], NULL, FOR_GOOD, 0, 0, 0};
  if (MX_READ_ONLY) fork_beside(&settings);
  test_own_lock();
  test_ended_heaps();
  test_passing();
  test_reserve();
  mi_free(p);
  mi_heap_delete(heap);
  printf("fork locks: %d failures\n", failures);
  return failures != 0;
}
