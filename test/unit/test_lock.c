// SPDX-License-Identifier: MIT
// The lock: one holder at a time; a waiter sleeps, also a thread of real-time priority that keeps
// the holder from its only processor; forks inside of each other, and one that does not get a lock;
// a thread that would wait for itself.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../include/mimalloc.h"
#include "../../src/base/config.h"
#include "../../src/base/lock.h"
#include "../../src/os/thread.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static mx_lock_t lock;

static double seconds_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// ---- one holder --------------------------------------------------------------------------------

#define TURNS 20000
static int turns;

static void* takes_turns(void* arg) {
  (void)arg;
  for (int i = 0; i < TURNS; i++) {
    if (i % 3 != 0 || !mx_lock_try(&lock)) mx_lock_acquire(&lock);
    turns++;
    mx_lock_release(&lock);
  }
  return NULL;
}

static void one_at_a_time(void) {
  pthread_t threads[6];
  for (int i = 0; i < 6; i++) EXPECT(pthread_create(&threads[i], NULL, takes_turns, NULL) == 0);
  for (int i = 0; i < 6; i++) pthread_join(threads[i], NULL);
  EXPECT(turns == 6 * TURNS && !mx_lock_is_mine(&lock) && mx_call_depth == 0);
}

// ---- sleep -------------------------------------------------------------------------------------

// Of processor time; a waiter that spins or yields uses what the processor has.
#define AWAKE_MOST 0.03

static void* waits(void* used) {
  const double before = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  mx_lock_acquire(&lock);
  mx_lock_release(&lock);
  *(double*)used = seconds_of(CLOCK_THREAD_CPUTIME_ID) - before;
  return NULL;
}

static double worst_of_waiters(void) {
  pthread_t threads[4];
  double used[4], worst = 0;
  mx_lock_acquire(&lock);
  for (int i = 0; i < 4; i++) EXPECT(pthread_create(&threads[i], NULL, waits, &used[i]) == 0);
  usleep(600000);
  mx_lock_release(&lock);
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    if (used[i] > worst) worst = used[i];
  }
  return worst;
}

// The least of some tries: an emulated machine's processor time goes on while it waits for a real
// processor, but a waiter that spins does so each time.
static double at_least(double (*tried)(void)) {
  double least = tried();
  for (int again = 0; again < 4 && least >= AWAKE_MOST; again++) {
    const double worst = tried();
    if (worst < least) least = worst;
  }
  return least;
}

static void waiters_sleep(void) {
  EXPECT(at_least(worst_of_waiters) < AWAKE_MOST);
}

// ---- real time ---------------------------------------------------------------------------------

#if defined(__linux__)
static bool is_held;

static void burn(double seconds) {
  const double begin = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  while (seconds_of(CLOCK_THREAD_CPUTIME_ID) - begin < seconds) continue;
}

static void* holds(void* arg) {
  (void)arg;
  mx_lock_acquire(&lock);
  __atomic_store_n(&is_held, true, __ATOMIC_RELEASE);
  burn(0.05);
  mx_lock_release(&lock);
  return NULL;
}

static bool be_urgent(int policy) {
  const struct sched_param param = {policy == SCHED_OTHER ? 0 : 10};
  return pthread_setschedparam(pthread_self(), policy, &param) == 0;
}

static bool stay_on_one_processor(void) {
  cpu_set_t all, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof(all), &all) != 0) return false;
  for (int i = 0; i < CPU_SETSIZE; i++) {
    if (!CPU_ISSET(i, &all)) continue;
    CPU_SET(i, &one);
    break;
  }
  return sched_setaffinity(0, sizeof(one), &one) == 0;
}

static void* works(void* over) {
  while (!__atomic_load_n((bool*)over, __ATOMIC_ACQUIRE)) {
    mi_heap_t* const heap = mi_heap_new();
    void* const p = mi_heap_malloc(heap, 100);
    mi_heap_destroy(heap);
    EXPECT(p != NULL);
  }
  return NULL;
}

// The same calls as the others', whose locks it finds held whenever it preempted one of them there.
static double work_urgently(void) {
  double worst = 0;
  const double end = seconds_of(CLOCK_MONOTONIC) + 1;
  while (seconds_of(CLOCK_MONOTONIC) < end) {
    usleep(300);
    const double before = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    mi_heap_t* const heap = mi_heap_new();
    mi_free(mi_heap_malloc(heap, 100));
    mi_heap_destroy(heap);
    const double used = seconds_of(CLOCK_THREAD_CPUTIME_ID) - before;
    if (used > worst) worst = used;
  }
  return worst;
}

static double wait_urgently(void) {
  pthread_t thread;
  double used = 0;
  __atomic_store_n(&is_held, false, __ATOMIC_RELEASE);
  EXPECT(pthread_create(&thread, NULL, holds, NULL) == 0);
  while (!__atomic_load_n(&is_held, __ATOMIC_ACQUIRE)) usleep(100);
  be_urgent(SCHED_FIFO);
  waits(&used);
  be_urgent(SCHED_OTHER);
  pthread_join(thread, NULL);
  return used;
}

static void* in_real_time(void* arg) {
  pthread_t threads[3];
  bool over = false;
  (void)arg;
  if (!stay_on_one_processor() || !be_urgent(SCHED_FIFO) || !be_urgent(SCHED_OTHER)) {
    printf("no right to real-time priority: left out\n");
    return NULL;
  }
  EXPECT(at_least(wait_urgently) < AWAKE_MOST);
  for (int i = 0; i < 3; i++) EXPECT(pthread_create(&threads[i], NULL, works, &over) == 0);
  be_urgent(SCHED_FIFO);
  EXPECT(at_least(work_urgently) < AWAKE_MOST);
  be_urgent(SCHED_OTHER);
  __atomic_store_n(&over, true, __ATOMIC_RELEASE);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  return NULL;
}

static void real_time(void) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, in_real_time, NULL) == 0);
  pthread_join(thread, NULL);
}
#else
static void real_time(void) {}
#endif

// ---- forks -------------------------------------------------------------------------------------

static mx_lock_t other, kept;
static bool has_kept, may_end;

static void forks_inside_of_each_other(void) {
  mx_lock_acquire(&kept);  // a call that is interrupted
  mx_fork_begin();
  EXPECT(mx_fork_is_inside() && mx_fork_take(&kept) && mx_fork_take(&lock));
  mx_fork_begin();
  EXPECT(mx_fork_take(&kept) && mx_fork_take(&lock) && mx_fork_take(&other));
  EXPECT(mx_lock_is_mine(&other) && !mx_fork_has_missed());
  mx_fork_let_go(&kept);
  mx_fork_let_go(&lock);
  mx_fork_let_go(&other);
  EXPECT(mx_lock_is_mine(&kept) && mx_lock_is_mine(&lock) && !mx_lock_is_mine(&other));
  mx_fork_end();
  mx_fork_let_go_in_child(&kept);
  mx_fork_let_go_in_child(&lock);
  EXPECT(mx_lock_is_mine(&kept) && !mx_lock_is_mine(&lock));
  mx_fork_end();
  mx_lock_release(&kept);
  EXPECT(!mx_lock_is_mine(&kept) && mx_call_depth == 0 && !mx_fork_has_begun());
}

static void* keeps(void* arg) {
  (void)arg;
  mx_lock_acquire(&kept);
  __atomic_store_n(&has_kept, true, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&may_end, __ATOMIC_ACQUIRE)) usleep(1000);
  mx_lock_release(&kept);
  return NULL;
}

static void fork_without_a_lock(void) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, keeps, NULL) == 0);
  while (!__atomic_load_n(&has_kept, __ATOMIC_ACQUIRE)) usleep(100);
  const double begin = seconds_of(CLOCK_MONOTONIC);
  mx_fork_begin();
  EXPECT(!mx_fork_is_inside());
  int tries = 0;
  while (!(mx_fork_take(&lock) && mx_fork_take(&kept))) {
    mx_fork_let_go(&lock);
    mx_fork_let_go(&kept);
    EXPECT(!mx_lock_is_mine(&lock) && mx_call_depth == 1);
    mx_fork_wait();
    tries++;
  }
  EXPECT(tries > 0 && mx_fork_has_missed() && mx_lock_is_mine(&lock) && !mx_lock_is_mine(&kept));
  EXPECT(seconds_of(CLOCK_MONOTONIC) - begin > 0.5);
  mx_fork_let_go(&lock);
  mx_fork_let_go(&kept);
  mx_fork_end();
  __atomic_store_n(&may_end, true, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  EXPECT(mx_lock_try(&kept) && mx_lock_try(&lock));
  mx_lock_release(&kept);
  mx_lock_release(&lock);
  EXPECT(mx_call_depth == 0);
}

// Whoever lets go of the lock, another one has it at once, for longer than a fork waits for one.
static void* passes_it_on(void* arg) {
  (void)arg;
  const double end = seconds_of(CLOCK_MONOTONIC) + 2;
  for (uintptr_t holder = 0x1000; seconds_of(CLOCK_MONOTONIC) < end; holder ^= 0x3000) {
    mx_store_release(&kept.holder, holder);
    usleep(1000);
  }
  mx_store_release(&kept.holder, (uintptr_t)0);
  return NULL;
}

static void fork_with_a_busy_lock(void) {
  pthread_t thread;
  mx_store_release(&kept.holder, (uintptr_t)0x2000);
  EXPECT(pthread_create(&thread, NULL, passes_it_on, NULL) == 0);
  mx_fork_begin();
  while (!mx_fork_take(&kept)) mx_fork_wait();
  EXPECT(!mx_fork_has_missed() && mx_lock_is_mine(&kept));
  mx_fork_let_go(&kept);
  mx_fork_end();
  pthread_join(thread, NULL);
  EXPECT(mx_call_depth == 0);
}

static int late;
static void comes_after(void) { late++; }

static void what_comes_after(void) {
  mx_call_then(&comes_after);
  EXPECT(late == 1);
  mx_call_enter();
  mx_lock_acquire(&lock);
  mx_call_then(&comes_after);
  mx_lock_release(&lock);
  EXPECT(late == 1);
  mx_call_leave();
  EXPECT(late == 2);
  mx_call_enter();
  mx_call_leave();
  EXPECT(late == 2);
}

// ---- oneself -----------------------------------------------------------------------------------

static void nobody_waits_for_himself(void) {
  if (MX_DEBUG == 0 && MX_SECURE == 0) return;
  int ends[2];
  char said[200] = "";
  EXPECT(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    dup2(ends[1], 2);
    mx_lock_acquire(&lock);
    mx_lock_acquire(&lock);
    _exit(0);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  close(ends[1]);
  EXPECT(read(ends[0], said, sizeof(said) - 1) > 0);
  EXPECT(strstr(said, "inside of another one of the same thread") != NULL);
  close(ends[0]);
}

int main(void) {
  one_at_a_time();
  waiters_sleep();
  real_time();
  forks_inside_of_each_other();
  fork_without_a_lock();
  fork_with_a_busy_lock();
  what_comes_after();
  nobody_waits_for_himself();
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
