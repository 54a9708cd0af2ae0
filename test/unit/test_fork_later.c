// SPDX-License-Identifier: MIT
// What vanished threads left is set right in the child of a fork before its first call, if it makes
// one: by whichever thread begins it, while others wait at the beginning of theirs, free, or fork.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/mimalloc.h"
#include "../../src/page/remote.h"
#include "../audit.h"
#include "../page_of.h"

#define OWNERS 3
#define TAKERS 4
#define BLOCKS 600
#define SIZES 5
#define TURNS 40
#define CROWD 700            // pages, more than a child keeps for the thread that it has
#define CROWD_SIZE 1000
#define CROWD_BLOCKS (CROWD * MX_SLICE_SIZE / CROWD_SIZE)

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static const bool sets_right_later = !MX_TRACK;
static const size_t sizes[SIZES] = {16, 48, 300, 1000, 20000};
static unsigned char* live[OWNERS][BLOCKS];
static void* kept[BLOCKS];
static void* crowd[CROWD_BLOCKS];
static size_t crowd_free;
static bool keeper_forks = true;
static sem_t ready, leave;
static int messages;

static void on_error(int code, void* arg) {
  (void)arg;
  messages += (code != 0);
}

static size_t size_of(size_t i) { return sizes[i % SIZES]; }

// Pages with free blocks, of which two thirds are live.
static void* own(void* arg) {
  unsigned char** const mine = (unsigned char**)arg;
  for (size_t i = 0; i < BLOCKS; i++) mine[i] = memset(mi_malloc(size_of(i)), (int)i, size_of(i));
  for (size_t i = 0; i < BLOCKS; i += 3) {
    mi_free(mine[i]);
    mine[i] = NULL;
  }
  sem_post(&ready);
  sem_wait(&leave);
  for (size_t i = 0; i < BLOCKS; i++) mi_free(mine[i]);
  return NULL;
}

// Many pages of one size, each with a free block.
static void* own_crowd(void* arg) {
  const mx_page_t* last = NULL;
  for (size_t i = 0; i < CROWD_BLOCKS; i++) crowd[i] = mi_malloc(CROWD_SIZE);
  for (size_t i = 0; i < CROWD_BLOCKS; i++) {
    const mx_page_t* const page = page_of(crowd[i]);
    if (page == last) continue;
    last = page;
    mi_free(crowd[i]);
    crowd[i] = NULL;
    crowd_free++;
  }
  sem_post(&ready);
  sem_wait(&leave);
  for (size_t i = 0; i < CROWD_BLOCKS; i++) mi_free(crowd[i]);
  return arg;
}

static pid_t fork_here(int (*body)(void)) {
  fflush(stdout);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  alarm(60);
  const int code = body();
  fflush(stdout);
  _exit(code != 0 || failures != 0 || messages != 0);
}

static void wait_for(pid_t pid) {
  int status = 1;
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
}

static bool is_whole(const unsigned char* p, size_t i) {
  return p[0] == (unsigned char)i && p[size_of(i) - 1] == (unsigned char)i;
}

// Frees each TAKERS-th live block, first of all, and makes others.
static void* take(void* arg) {
  const size_t first = (size_t)(uintptr_t)arg;
  void* fresh[BLOCKS];
  for (size_t n = first; n < OWNERS * BLOCKS; n += TAKERS) {
    unsigned char* const p = live[n / BLOCKS][n % BLOCKS];
    if (p == NULL) continue;
    if (!is_whole(p, n % BLOCKS)) __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
    mi_free(p);
  }
  for (size_t i = 0; i < BLOCKS; i++) fresh[i] = memset(mi_malloc(size_of(i)), 1, size_of(i));
  for (size_t i = 0; i < BLOCKS; i++) mi_free(fresh[i]);
  return NULL;
}

static int ends_at_once(void) {
  EXPECT(mx_call_is_pending() == sets_right_later);
  for (size_t i = 0; i < OWNERS; i++) {
    const mx_page_t* const page = page_of(live[i][1]);
    EXPECT(!mx_page_has_thread(page) || mx_page_is_mine(page));
  }
  EXPECT(mx_call_is_pending() == sets_right_later);
  return 0;
}

// The C library gives the stacks of vanished threads to these, and with them their identities.
static int many_take(void) {
  pthread_t threads[TAKERS];
  for (size_t t = 0; t < TAKERS; t++) {
    EXPECT(pthread_create(&threads[t], NULL, take, (void*)(uintptr_t)t) == 0);
  }
  for (size_t t = 0; t < TAKERS; t++) pthread_join(threads[t], NULL);
  for (size_t i = 0; i < BLOCKS; i++) {
    EXPECT(kept[i] == NULL || !keeper_forks || mx_page_is_mine(page_of(kept[i])));
    mi_free(kept[i]);
  }
  mi_collect(true);
  EXPECT(!mx_call_is_pending());
  return audit(&mx_subproc_main);
}

static int one_takes(void) {
  for (size_t t = 0; t < TAKERS; t++) take((void*)(uintptr_t)t);
  mi_collect(true);
  return audit(&mx_subproc_main);
}

static int forks_again(void) {
  wait_for(fork_here(one_takes));
  EXPECT(mx_call_is_pending() == sets_right_later);
  wait_for(fork_here(many_take));
  return one_takes();
}

// What the process has committed is not exact where it forked in the middle of another call.
static int takes_others(void) {
  take((void*)(uintptr_t)2);
  mi_collect(true);
  return !mx_theap_is_valid(mx_tls_theap) || mx_call_is_pending();
}

static void* fork_often(void* arg) {
  (void)arg;
  for (int i = 0; i < 6; i++) wait_for(fork_here(takes_others));
  return NULL;
}

// One thread forks while another one begins a call.
static int forks_beside(void) {
  pthread_t threads[2];
  EXPECT(pthread_create(&threads[0], NULL, fork_often, NULL) == 0);
  EXPECT(pthread_create(&threads[1], NULL, fork_often, NULL) == 0);
  take((void*)(uintptr_t)1);
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
  mi_collect(true);
  return audit(&mx_subproc_main);
}

// What is freed into pages that nobody has would stay on their lists.
static int frees_one(void) {
  mi_free(live[1][1]);
  EXPECT(!mx_call_is_pending());
  EXPECT(mx_remote_is_empty(page_of(live[1][2])));
  return audit(&mx_subproc_main);
}

static bool see_area(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                     void* arg) {
  (void)heap;
  (void)block;
  (void)size;
  EXPECT(!mx_call_is_pending() && area->used * area->block_size <= area->committed);
  ++*(int*)arg;
  return true;
}

static int looks_first(void) {
  int areas = 0, again = 0;
  EXPECT(mi_heap_visit_blocks(mi_heap_main(), false, see_area, &areas));
  EXPECT(mi_heap_visit_blocks(mi_heap_main(), false, see_area, &again));
  EXPECT(areas > 0 && areas == again);
  return 0;
}

// All that was free serves again, also in pages that the child gave to nobody: no other page is made.
static int takes_from_crowd(void) {
  size_t own = 0, others = 0;
  mi_free(mi_malloc(CROWD_SIZE));
  const int64_t before = mx_load_relaxed(&mx_process_counters.pages.total);
  for (size_t i = 0; i < CROWD_BLOCKS; i++) {
    const mx_page_t* const page = page_of(crowd[i]);
    if (crowd[i] == NULL) continue;
    own += mx_page_is_mine(page);
    others += !mx_page_has_thread(page);
  }
  EXPECT(own > 0 && others > 0 && own + others == CROWD_BLOCKS - crowd_free);
  for (size_t i = 1; i < crowd_free; i++) EXPECT(mi_malloc(CROWD_SIZE) != NULL);
  EXPECT(mx_load_relaxed(&mx_process_counters.pages.total) <= before + 1);
  return audit(&mx_subproc_main);
}

// Another thread does what is pending, and waits in a handler for this very fork.
static int forks_where_it_never_ends(void) {
  mx_store_relaxed(&mx_call_pending, (uint32_t)MX_PENDING_RUNS);
  const pid_t pid = fork();
  if (pid == 0) _exit(mx_call_is_pending());
  wait_for(pid);
  return 0;
}

// A handler forks in a thread's first call, and the call makes its theap in the child.
static void* fork_inside(void* arg) {
  (void)arg;
  mx_call_enter();
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    void* const p = mi_malloc(100);
    mx_call_leave();
    EXPECT(mx_tls_theap != &mx_theap_empty && mx_load_relaxed(&mx_tls_theap->heap) != NULL);
    EXPECT(p != NULL && mx_page_is_mine(page_of(p)));
    mi_free(p);
    const int code = one_takes();
    fflush(stdout);
    _exit(code != 0 || failures != 0 || messages != 0);
  }
  mx_call_leave();
  wait_for(pid);
  return NULL;
}

// A thread that has allocated nothing yet forks: no theap survives.
static void* fork_first(void* arg) {
  (void)arg;
  keeper_forks = false;
  wait_for(fork_here(one_takes));
  wait_for(fork_here(many_take));
  return NULL;
}

int main(void) {
  pthread_t owners[OWNERS], crowd_owner, other;
  mi_register_error(on_error, NULL);
  sem_init(&ready, 0, 0);
  sem_init(&leave, 0, 0);
  for (size_t i = 0; i < OWNERS; i++) {
    EXPECT(pthread_create(&owners[i], NULL, own, live[i]) == 0);
  }
  for (size_t i = 0; i < OWNERS; i++) sem_wait(&ready);
  for (size_t i = 0; i < BLOCKS; i += 2) kept[i] = mi_malloc(size_of(i) % 512);
  wait_for(fork_here(ends_at_once));
  wait_for(fork_here(one_takes));
  wait_for(fork_here(forks_again));
  wait_for(fork_here(frees_one));
  wait_for(fork_here(looks_first));
  wait_for(fork_here(forks_where_it_never_ends));
  for (int turn = 0; turn < TURNS; turn++) {
    wait_for(fork_here(many_take));
    wait_for(fork_here(forks_beside));
  }
  EXPECT(pthread_create(&crowd_owner, NULL, own_crowd, NULL) == 0);
  sem_wait(&ready);
  wait_for(fork_here(takes_from_crowd));
  EXPECT(pthread_create(&other, NULL, fork_first, NULL) == 0);
  pthread_join(other, NULL);
  EXPECT(pthread_create(&other, NULL, fork_inside, NULL) == 0);
  pthread_join(other, NULL);
  for (size_t i = 0; i < BLOCKS; i++) mi_free(kept[i]);
  for (size_t i = 0; i <= OWNERS; i++) sem_post(&leave);
  for (size_t i = 0; i < OWNERS; i++) pthread_join(owners[i], NULL);
  pthread_join(crowd_owner, NULL);
  EXPECT(messages == 0 && audit(&mx_subproc_main) == 0);
  printf("%d failures\n", failures);
  return failures != 0;
}
