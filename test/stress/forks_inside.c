// SPDX-License-Identifier: MIT
// Forks in handlers of signals that arrive in the middle of malloc, free, realloc, and of threads'
// starts and ends, while other threads allocate. The parent goes on; the child ends at once, or
// returns from the handler and lives on with what was interrupted.
//
// With threads one fork is made at a time: C libraries hold a lock of their own in fork, for which
// another one in a handler waits for ever (glibc to 2.36). In the first half of the time there is
// one thread, and no such lock: signals interrupt fork as well, and each other's handlers.
//
// A child that hangs or dies is missed in the end: it counts itself when it starts and when it is
// done, in memory that all share.
#include "stress.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PLACES 256
#define OWN 64
#define VICTIMS 64
#define CHILDREN_MAX 6
#define CHILD_SECONDS 30

typedef struct tally_s {
  atomic_uint started, done, in_handlers, continued;
} tally_t;

static tally_t* tally;
static _Atomic(block_t*) places[PLACES];
static atomic_bool is_over;
static atomic_bool is_forking;
static bool has_threads;
static double until;
static volatile sig_atomic_t in_child;
static __thread volatile sig_atomic_t may_go_on;  // what a signal interrupts can go on in a child

// ---- whom signals interrupt --------------------------------------------------------------------

static pthread_mutex_t victims_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t victims[VICTIMS];
static bool is_victim[VICTIMS];

static int enter_victim(pthread_t thread) {
  int i = 0;
  pthread_mutex_lock(&victims_lock);
  while (i < VICTIMS && is_victim[i]) i++;
  if (i < VICTIMS) {
    victims[i] = thread;
    is_victim[i] = true;
  }
  pthread_mutex_unlock(&victims_lock);
  check(i < VICTIMS);
  return i;
}

static void leave_victims(int i) {
  pthread_mutex_lock(&victims_lock);
  is_victim[i] = false;
  pthread_mutex_unlock(&victims_lock);
}

static void interrupt_one(random_t* r) {
  const size_t from = random_below(r, VICTIMS);
  pthread_mutex_lock(&victims_lock);
  for (size_t n = 0; n < VICTIMS; n++) {
    const size_t i = (from + n) % VICTIMS;
    if (!is_victim[i]) continue;
    pthread_kill(victims[i], random_below(r, 2) == 0 ? SIGUSR1 : SIGUSR2);
    break;
  }
  pthread_mutex_unlock(&victims_lock);
}

// ---- children ----------------------------------------------------------------------------------

static void count_end(void) {
  if (in_child) atomic_fetch_add(&tally->done, 1);
}

static void exchange_some(random_t* r, size_t n) {
  for (size_t i = 0; i < n; i++) {
    block_t* mine = random_below(r, 3) != 0 ? block_new(random_size(r), random_next(r)) : NULL;
    block_free(atomic_exchange(&places[random_below(r, PLACES)], mine));
  }
}

static void* child_thread(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  exchange_some(&r, 50);
  return NULL;
}

// The only thread of a child, behind what was interrupted. Never returns.
static void live_in_child(random_t* r) {
  atomic_fetch_add(&tally->continued, 1);
  exchange_some(r, 100);
  const pthread_t thread = start(child_thread, (void*)(uintptr_t)(77 + getpid()));
  exchange_some(r, 50);
  pthread_join(thread, NULL);
  for (size_t i = 0; i < PLACES; i++) block_free(atomic_exchange(&places[i], (block_t*)NULL));
  exit(0);
}

// False: nobody may.
static bool begin_fork(void) {
  if (atomic_load(&tally->started) - atomic_load(&tally->done) >= CHILDREN_MAX) return false;
  return !has_threads || !atomic_exchange(&is_forking, true);
}

// True: this is the child.
static bool fork_now(void) {
  const pid_t child = fork();
  atomic_store(&is_forking, false);
  if (child == 0) has_threads = false;
  return child == 0;
}

static void begin_child(void) {
  in_child = 1;
  atomic_fetch_add(&tally->started, 1);
  alarm(CHILD_SECONDS);
}

static void on_signal(int number) {
  const int saved = errno;
  (void)number;
  const unsigned n = atomic_fetch_add(&tally->in_handlers, 1);
  if (begin_fork() && fork_now()) {
    begin_child();
    if (!may_go_on || n % 2 == 0) {
      count_end();
      _exit(0);
    }
  }
  errno = saved;
}

static void reap(void) {
  int status;
  pid_t child;
  while ((child = waitpid(-1, &status, WNOHANG)) > 0) {
    if (WIFSIGNALED(status)) fail("a child died of signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0) fail("a child ended with %d", WEXITSTATUS(status));
  }
}

// ---- what is interrupted -----------------------------------------------------------------------

static void* short_body(void* arg) {
  may_go_on = 1;
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  exchange_some(&r, 1 + random_below(&r, 20));
  if (in_child) live_in_child(&r);
  return NULL;
}

// pthread_create itself cannot go on in a child: that is the C library's matter.
static void run_thread(random_t* r) {
  may_go_on = 0;
  const pthread_t thread = start(short_body, (void*)(uintptr_t)(random_next(r) >> 8));
  const int i = enter_victim(thread);
  usleep((useconds_t)random_below(r, 300));
  leave_victims(i);
  pthread_join(thread, NULL);
  may_go_on = 1;
}

static void fork_plainly(random_t* r) {
  if (!begin_fork() || !fork_now()) return;
  begin_child();
  if (random_below(r, 2) == 0) live_in_child(r);
  count_end();
  _exit(0);
}

static void resize_some(random_t* r, block_t** own) {
  for (int n = 0; n < 20; n++) {
    block_t** const at = &own[random_below(r, OWN)];
    if (*at == NULL) continue;
    block_check(*at);
    const uint64_t stamp = (*at)->stamp;
    const size_t size = 32 + random_size(r) * (random_below(r, 50) == 0 ? 8 : 1);
    *at = (block_t*)realloc(*at, size);
    check(*at != NULL && (*at)->stamp == stamp);
    block_sign(*at, size, stamp);
  }
}

static void* body(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  block_t* own[OWN] = {NULL};
  may_go_on = 1;
  while (has_threads ? !atomic_load(&is_over) : stress_time() < until) {
    switch (random_below(&r, 8)) {
      case 0:
        if (has_threads) run_thread(&r);
        break;
      case 1:
      case 2: fork_plainly(&r); break;
      case 3: resize_some(&r, own); break;
      default: exchange_some(&r, 50); break;
    }
    block_t** const at = &own[random_below(&r, OWN)];
    block_free(*at);
    *at = block_new(random_size(&r), random_next(&r));
    if (in_child) live_in_child(&r);
    if (!has_threads) reap();
  }
  may_go_on = 0;
  // The signal may have come when the time was just over.
  if (in_child) live_in_child(&r);
  for (size_t i = 0; i < OWN; i++) block_free(own[i]);
  return NULL;
}

static void wait_for_all(void) {
  const double begin = stress_time();
  while (atomic_load(&tally->started) != atomic_load(&tally->done)) {
    reap();
    usleep(1000);
    if (stress_time() - begin > CHILD_SECONDS + 10) fail("children are missing");
  }
  reap();
}

static void with_threads(void) {
  random_t r = random_of(0);
  has_threads = true;
  pthread_t threads[16];
  int places_of[16];
  const int n = stress_threads < 16 ? stress_threads : 16;
  for (int i = 0; i < n; i++) {
    threads[i] = start(body, (void*)(uintptr_t)(i + 1));
    places_of[i] = enter_victim(threads[i]);
  }
  while (!stress_is_over()) {
    usleep((useconds_t)random_below(&r, 400));
    interrupt_one(&r);
    reap();
  }
  for (int i = 0; i < n; i++) leave_victims(places_of[i]);
  atomic_store(&is_over, true);
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
  wait_for_all();
}

// Signals come from a process of their own.
static void alone(void) {
  until = stress_seconds / 2;
  const pid_t self = getpid(), sender = fork();
  random_t r = random_of(1);
  check(sender >= 0);
  while (sender == 0 && getppid() == self) {
    if (stress_time() >= until) _exit(0);
    usleep((useconds_t)random_below(&r, 300));
    kill(self, random_below(&r, 2) == 0 ? SIGUSR1 : SIGUSR2);
  }
  if (sender == 0) _exit(0);
  body((void*)(uintptr_t)99);
  wait_for_all();
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  if (STRESS_TSAN) return 77;  // skipped
  setvbuf(stdout, NULL, _IONBF, 0);
  tally = (tally_t*)mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                         -1, 0);
  check(tally != MAP_FAILED);
  atexit(count_end);
  alarm((unsigned)stress_seconds + 2 * CHILD_SECONDS);
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGUSR2, &action, NULL);

  alone();
  printf("%u signals, %u children, %u went on; then\n", tally->in_handlers, tally->started,
         tally->continued);
  with_threads();
  printf("%u signals, %u children, %u went on\n", tally->in_handlers, tally->started,
         tally->continued);
  return 0;
}
