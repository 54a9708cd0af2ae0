// SPDX-License-Identifier: MIT
// The background thread: it purges what waited long enough, and makes holes in pages that lie
// idle, so that a process which makes no further call gives back what it does not need.
//
// The thread sleeps without a time limit while nothing waits. It is woken when a purge is
// scheduled, and when a full page gets its first free block: the only signs that memory is being
// freed that do not cost malloc and free anything. It sleeps again after a round in which no page
// had changed and nothing waited.
//
// Starting a thread allocates, so it cannot happen inside of free, nor in the middle of malloc. It
// happens at the beginning of a slow allocation, through a hook that is there only until then. What
// it allocates the C library keeps for longer than the thread.
#include "give_back.h"

#include "../base/hooks.h"
#include "../base/options.h"
#include "../heap/parked.h"
#include "../heap/resting.h"
#include "../heap/subproc.h"
#include "../heap/thread_life.h"
#include "../heap/trim.h"
#include "../host/process.h"
#include "../host/residence.h"
#include "../os/os.h"
#include "../page/holes.h"

// Slices in use from which on the thread is worth its stack.
#define WORTH_A_THREAD 32

// Between two looks at pages, in ms. A round takes at most this part of a processor's time; what it
// waits for a processor, on a busy machine, is no reason to look less often.
#define ROUND_MSECS_MIN 250
#define ROUND_MSECS_MAX 500
#define ROUND_SHARE 100

// Where holes are filled again, pages must lie idle for longer, up to so many rounds.
#define PATIENCE_MAX 64

enum { ABSENT, RUNNING, STOPPING };

static mx_at_start mx_atomic(uint32_t) state;
static mx_at_start mx_atomic(uint32_t) sleeping;  // 1 while the thread waits to be woken
static mx_at_start mx_atomic(uint32_t) home_process;  // that the thread runs in
static mx_at_start mx_atomic(bool) first_has_left;  // the process ends with its last thread

bool mx_scavenger_is_running(void) { return mx_load_acquire(&state) == RUNNING; }

// ---- the thread --------------------------------------------------------------------------------

static void wake_up(void) {
  if (mx_take_any(&sleeping, 0) != 0) mx_os_wake(&sleeping);
}

typedef struct round_s {
  uint64_t next;   // when to purge again, 0: nothing waits
  size_t bytes;    // given back from holes
  bool has_changed;
  bool has_parked;  // pages of ended threads wait for other threads
} round_t;

// In builds with canaries, where the option check_every asks for it, each look at pages verifies
// those at rest; the thread goes on looking then, though nothing changes.
static bool verifies_pages(void) { return MX_PADDING && mx_option(check_every) > 0; }

static void visit_subproc(mx_subproc_t* subproc, bool with_holes, round_t* round) {
  if (mx_parked_give_up(subproc, false)) round->has_parked = true;
  mx_arenas_purge(&subproc->arenas, false);
  const uint64_t at = mx_load_relaxed(&subproc->arenas.purge_at);
  if (at != 0 && (round->next == 0 || at < round->next)) round->next = at;
  if (with_holes) round->bytes += mx_subproc_make_holes(subproc, true, &round->has_changed);
}

static round_t work(bool with_holes, bool verifies) {
  round_t round = {0, 0, false, false};
  for (mx_subproc_t* s = NULL; (s = mx_subproc_step(s)) != NULL;) {
    visit_subproc(s, with_holes, &round);
    if (verifies) mx_subproc_verify_resting(s);
  }
  if (verifies) round.has_changed = true;
  return round;
}

static uint64_t round_msecs(uint64_t used_nsecs) {
  const long delay = mx_option(purge_delay);
  const size_t wanted = (size_t)(delay > 0 ? delay : 0) / 2;
  const size_t least = mx_max(ROUND_MSECS_MIN, (size_t)(used_nsecs * ROUND_SHARE / 1000000));
  return mx_max(mx_min(wanted, ROUND_MSECS_MAX), least);
}

static void sleep_until_woken(void) {
  mx_store_relaxed(&sleeping, (uint32_t)1);
  mx_fence_seq_cst();
  // What was noted before the word was set may have found nobody asleep.
  bool has_work = false;
  for (mx_subproc_t* s = NULL; (s = mx_subproc_step(s)) != NULL;) {
    if (mx_parked_give_up(s, false)) has_work = true;
    if (mx_load_relaxed(&s->arenas.purge_at) == 0) continue;
    has_work = has_work || mx_load_relaxed(&s->arenas.purgeable) > 0;
  }
  if (has_work) {
    mx_store_relaxed(&sleeping, (uint32_t)0);
    return;
  }
  while (mx_load_acquire(&sleeping) == 1 && mx_load_acquire(&state) == RUNNING) {
    mx_os_wait(&sleeping, 1, 0);
  }
}

// How many times the round is the pause before the next one. *made: bytes of holes that are still
// of interest.
static uint64_t patience_after(uint64_t patience, size_t* made, size_t bytes) {
  const size_t filled = mx_holes_take_filled();
  *made += bytes;
  if (filled > *made / 16) {
    if (patience < PATIENCE_MAX) patience *= 2;
  } else if (filled == 0 && patience > 1) {
    patience /= 2;
  }
  *made = *made / 2 + *made / 4;
  return patience;
}

static void run(void) {
  uint64_t next_round = 0, patience = 1;
  size_t made = 0;
  mx_store_relaxed(&sleeping, (uint32_t)0);  // the one before may have ended on its way to sleep
  // The thread's own, so that it is never set when there is none.
  mx_store_release(&mx_arenas_background, &wake_up);
  while (mx_load_acquire(&state) == RUNNING) {
    const uint64_t used = mx_host_used_nsecs();
    const bool is_due = (mx_os_clock_msecs() >= next_round);
    const bool with_holes = (is_due && mx_option(purge_holes) != 0);
    const bool verifies = (is_due && verifies_pages());
    const round_t round = work(with_holes, verifies);
    mx_limits_tick();
    mx_visit_fn* const visit = mx_load_relaxed(&mx_visits.slow_visit);
    if (visit != NULL) visit();
    const uint64_t now = mx_os_clock_msecs();
    if (with_holes || verifies) {
      patience = patience_after(patience, &made, round.bytes);
      next_round = now + round_msecs(mx_host_used_nsecs() - used) * patience;
    }
    const bool is_quiet = (with_holes || mx_option(purge_holes) == 0) && !round.has_changed;
    if (is_quiet && round.bytes == 0 && round.next == 0 && !round.has_parked) {
      sleep_until_woken();
      next_round = mx_os_clock_msecs() + round_msecs(0) * patience;
      continue;
    }
    uint64_t until = (is_quiet && round.bytes == 0 ? UINT64_MAX : next_round);
    if (round.has_parked) until = mx_min(until, now + ROUND_MSECS_MIN);
    if (round.next != 0 && round.next < until) until = round.next;
    if (until > now) mx_os_wait(&sleeping, 0, until - now + 1);
  }
  mx_store_release(&mx_arenas_background, (mx_wake_background_fn*)NULL);
  mx_store_release(&state, (uint32_t)ABSENT);
}

// ---- start and end -----------------------------------------------------------------------------

static void set_visit(mx_visit_fn* visit) { mx_store_relaxed(&mx_visits.slow_visit, visit); }

static bool start_thread(void) {
  mx_theap_t* const before = mx_thread_set_lasting();
  const bool has_started = mx_os_thread_start(&run);
  mx_thread_set_default(before);
  return has_started;
}

static void start_if_worth(void) {
  if (mx_load_relaxed(&mx_subproc_main.arenas.in_use) < WORTH_A_THREAD) return;
  // What a fork left is set right when the call that it lay in is over: until then it is alone.
  if (mx_call_is_pending()) return;
  uint32_t absent = ABSENT;
  mx_store_relaxed(&home_process, mx_host_main_thread_number());
  if (!mx_cas_strong_acq_rel(&state, &absent, (uint32_t)RUNNING)) return;
  set_visit(NULL);
  // Either this sees that the option was taken back, or the thread that did so sees the state.
  mx_fence_seq_cst();
  const bool wanted = (mx_option(background_purge) > 0);
  if (wanted && start_thread()) return;
  mx_store_release(&state, (uint32_t)ABSENT);
  if (!wanted) {
    mx_scavenger_apply();  // a thread that set it meanwhile saw RUNNING
    return;
  }
  mx_warning("unable to start the thread of option background_purge: memory is given back only "
             "by later calls\n");
}

void mx_scavenger_apply(void) {
  mx_fence_seq_cst();  // the option was set before: see start_if_worth
  const bool wanted = (mx_option(background_purge) > 0);
  if (!wanted) {
    set_visit(NULL);
    if (mx_scavenger_is_running()) mx_scavenger_stop();
  } else if (mx_load_acquire(&state) == ABSENT) {
    set_visit(&start_if_worth);
  }
}

// In a child, whose parent has the thread: nobody may count on it.
static void forget_thread(void) {
  mx_store_release(&state, (uint32_t)ABSENT);
  mx_store_relaxed(&sleeping, (uint32_t)0);
  mx_store_relaxed(&first_has_left, false);
  mx_store_release(&mx_arenas_background, (mx_wake_background_fn*)NULL);
}

void mx_scavenger_stop(void) {
  uint32_t running = RUNNING;
  set_visit(NULL);
  // This child was made without fork's handlers (_Fork, clone).
  if (mx_scavenger_is_running() && mx_load_relaxed(&home_process) != mx_host_main_thread_number()) {
    forget_thread();
    return;
  }
  if (!mx_cas_strong_acq_rel(&state, &running, (uint32_t)STOPPING)) return;
  for (unsigned turn = 0; mx_load_acquire(&state) == STOPPING; turn++) {
    mx_store_relaxed(&sleeping, (uint32_t)2);
    mx_os_wake(&sleeping);
    mx_pause(turn);
  }
  uint32_t stopped = 2;  // and not what the next one has set
  mx_cas_strong_acq_rel(&sleeping, &stopped, (uint32_t)0);
}

void mx_scavenger_thread_ended(bool was_first) {
  if (was_first) mx_store_relaxed(&first_has_left, true);
  if (!mx_load_relaxed(&first_has_left)) return;
  if (mx_load_relaxed(&mx_subproc_main.main_heap.counters.threads.current) > 0) return;
  if (!mx_scavenger_is_running()) return;
  mx_scavenger_stop();
  mx_scavenger_apply();
}

void mx_scavenger_after_fork(void) {
  forget_thread();
  mx_scavenger_apply();
}
