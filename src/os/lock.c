// SPDX-License-Identifier: MIT
// The lock of base/lock.h: taking it, sleeping for it, and forks around it.
//
// The word is 0, or the identity of the holder, whose lowest bit says that a thread may sleep. One
// that slept cannot know whether there are others, so it takes the lock with that bit set; at worst
// that wakes nobody. Sleepers compare the lower half of the word: if it is the same again, the bit
// is set, and the release to come wakes them.
#include "../base/check.h"
#include "../base/config.h"
#include "../base/lock.h"

#include "os.h"
#include "system.h"
#include "thread.h"

#define WAITED ((uintptr_t)1)

// Tries before a waiter sleeps: about as long as what is done under a lock.
#if defined(MX_EXPLORE)
#define SPINS 0
#else
#define SPINS 64
#endif

// ---- sleeping ----------------------------------------------------------------------------------

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define LOWER_HALF (sizeof(uintptr_t) / sizeof(uint32_t) - 1)
#else
#define LOWER_HALF 0
#endif

#if MX_WAITS_ON_ADDRESS
// What the system compares is 32 bits: those that have the lowest one.
static mx_atomic(uint32_t)* lower_half(mx_lock_t* lock) {
  return (mx_atomic(uint32_t)*)(void*)&lock->holder + LOWER_HALF;
}

static void sleep_on(mx_lock_t* lock, uintptr_t seen, uint64_t msecs) {
  mx_os_wait(lower_half(lock), (uint32_t)seen, msecs);
}

static void wake_one(mx_lock_t* lock) { mx_os_wake(lower_half(lock)); }
#else
// Nobody is told of a release: it is looked for from time to time.
static void sleep_on(mx_lock_t* lock, uintptr_t seen, uint64_t msecs) {
  (void)msecs;
  if (mx_load_relaxed(&lock->holder) == seen) mx_nap();
}

static void wake_one(mx_lock_t* lock) { (void)lock; }
#endif

// ---- the lock ----------------------------------------------------------------------------------

// Milliseconds of one hold that a fork waits for before it lets go of all that it took and begins
// again, and after which it goes on without the locks that it does not get.
#define TRY_MSECS ((uint64_t)10)
#define GIVE_UP_MSECS 1000

// Without a look before: a word that is read first, and then written, has two faults at a start.
static bool take_lock(mx_lock_t* lock, uintptr_t as) {
  uintptr_t none = 0;
  return mx_cas_strong_acq_rel(&lock->holder, &none, as);
}

// Whether this thread's fork has the lock, which is then as good as taken.
static mx_cold bool pass_by_fork(mx_lock_t* lock) {
  if (!mx_lock_is_mine(lock) || lock->fork_level == 0 || lock->is_passed) return false;
  return lock->is_passed = true;
}

// A lock that its own thread holds is never let go of.
static mx_noreturn void fail_for_itself(void) {
  static const char text[] = "mimalloc: error: a call was made inside of another one of the same "
                             "thread, in a handler of a signal or of fork\n";
  mx_os_write_stderr(text, sizeof(text) - 1);
  mx_os_abort();
}

// Until one holder keeps the lock for so many milliseconds (0: without end): one that goes from
// hand to hand is only busy. When this thread does not get to run, the holder may not, either: of
// each sleep no more is counted than was asked for.
static mx_noinline bool wait_for(mx_lock_t* lock, uint64_t msecs) {
  const uintptr_t self = mx_thread_id();
  if (mx_unlikely(pass_by_fork(lock))) return true;
  if ((MX_DEBUG > 0 || MX_SECURE > 0) && mx_lock_is_mine(lock)) fail_for_itself();
  for (unsigned spins = 0; spins < SPINS; spins++) {
    if (mx_load_relaxed(&lock->holder) == 0 && take_lock(lock, self)) return true;
    mx_spin_hint();
  }
  uintptr_t last = 0;
  uint64_t waited = 0;
  while (!take_lock(lock, self | WAITED)) {
    uintptr_t seen = mx_load_relaxed(&lock->holder);
    if (seen == 0) continue;
    if (seen != last) waited = 0;
    const bool is_noted =
        ((seen & WAITED) != 0 || mx_cas_strong_acq_rel(&lock->holder, &seen, seen | WAITED));
    if (!is_noted) continue;
    last = seen | WAITED;
    if (msecs == 0) {
      sleep_on(lock, last, 0);
      continue;
    }
    if (waited >= msecs) return false;
    const uint64_t before = mx_os_clock_msecs();
    sleep_on(lock, last, TRY_MSECS);
    const uint64_t slept = mx_os_clock_msecs() - before;
    waited += (slept < TRY_MSECS ? slept : TRY_MSECS);
  }
  return true;
}

bool mx_lock_try(mx_lock_t* lock) {
  mx_call_enter();
  const bool taken = take_lock(lock, mx_thread_id()) || pass_by_fork(lock);
  if (!taken) mx_call_leave();
  return taken;
}

void mx_lock_acquire(mx_lock_t* lock) {
  mx_call_enter();
  if (mx_unlikely(!take_lock(lock, mx_thread_id()))) wait_for(lock, 0);
}

void mx_lock_release(mx_lock_t* lock) {
  if (mx_unlikely(lock->is_passed)) {
    mx_check(mx_lock_is_mine(lock) && lock->fork_level != 0);
    lock->is_passed = false;
    mx_call_leave();
    return;
  }
  const uintptr_t was = mx_exchange_acq_rel(&lock->holder, (uintptr_t)0);
  mx_check((was & ~WAITED) == mx_thread_id());
  if (mx_unlikely((was & WAITED) != 0)) wake_one(lock);
  mx_call_leave();
}

bool mx_lock_is_mine(const mx_lock_t* lock) {
  return (mx_load_relaxed(&lock->holder) & ~WAITED) == mx_thread_id();
}

void mx_lock_reset(mx_lock_t* lock) {
  if (mx_lock_is_mine(lock)) return;
  lock->is_passed = false;
  mx_store_relaxed(&lock->holder, (uintptr_t)0);
}

// ---- forks -------------------------------------------------------------------------------------

#define LEVELS 4  // forks of one thread inside each other; those further in share the last place

typedef struct fork_s {
  bool is_inside;
  bool holds_pending;  // see mx_call_hold_pending
  bool gives_up;       // does not wait again for what it missed
  bool has_missed;     // goes on without a lock
} fork_t;

mx_used static mx_thread_local uint32_t fork_level;
mx_used static mx_thread_local fork_t forks_of_thread[LEVELS];
mx_used static mx_thread_local mx_lock_t* missed;

static fork_t* this_fork(void) {
  const uint32_t level = mx_tls(fork_level);
  return &mx_tls(forks_of_thread)[level <= LEVELS ? level - 1 : LEVELS - 1];
}

void mx_fork_begin(void) {
  const bool is_inside = (mx_call_depth != 0);
  mx_call_enter_plainly();
  mx_tls(fork_level)++;
  fork_t* const f = this_fork();
  f->is_inside = is_inside;
  bool missed = false;
  f->holds_pending = (!is_inside && mx_call_hold_pending(&missed));
  f->gives_up = f->has_missed = missed;
}

mx_cold bool mx_fork_has_begun(void) { return mx_tls(fork_level) != 0; }

void mx_fork_end(void) {
  if (mx_tls(fork_level) == 0) return;
  if (this_fork()->holds_pending) mx_call_let_pending();
  mx_tls(fork_level)--;
  mx_call_leave();
}

bool mx_fork_is_inside(void) {
  return mx_tls(fork_level) == 0 ? mx_call_depth != 0 : this_fork()->is_inside;
}

bool mx_fork_has_missed(void) { return mx_tls(fork_level) != 0 && this_fork()->has_missed; }

bool mx_fork_take(mx_lock_t* lock) {
  if (mx_lock_is_mine(lock)) return true;
  mx_call_enter();
  if (mx_unlikely(!take_lock(lock, mx_thread_id())) && !wait_for(lock, TRY_MSECS)) {
    mx_call_leave();
    fork_t* const f = this_fork();
    f->has_missed = f->gives_up;
    mx_tls(missed) = lock;
    return f->has_missed;
  }
  lock->fork_level = mx_tls(fork_level);
  return true;
}

// Holding nothing that another fork may wait for.
void mx_fork_wait(void) {
  mx_lock_t* const lock = mx_tls(missed);
  mx_call_enter();
  if (wait_for(lock, GIVE_UP_MSECS)) {
    mx_lock_release(lock);
    return;
  }
  this_fork()->gives_up = true;
  mx_call_leave();
}

bool mx_fork_let_go(mx_lock_t* lock) {
  if (mx_lock_is_mine(lock) && lock->fork_level != 0 && lock->fork_level == mx_tls(fork_level)) {
    lock->fork_level = 0;
    mx_lock_release(lock);
  }
  return true;
}

void mx_fork_forget(mx_lock_t* lock) {
  if (mx_likely(lock->fork_level == 0) || !mx_lock_is_mine(lock)) return;
  lock->fork_level = 0;
  mx_lock_release(lock);
}

bool mx_fork_let_go_in_child(mx_lock_t* lock) {
  if (mx_lock_is_mine(lock)) return mx_fork_let_go(lock);
  lock->fork_level = 0;
  mx_lock_reset(lock);
  return true;
}
