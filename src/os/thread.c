// SPDX-License-Identifier: MIT
// What the thread's identity is made of where no register has it, and how deep a thread is in
// calls: see thread.h.
#include "thread.h"

#include "../base/lock.h"
#include "os.h"

mx_thread_local uint32_t mx_call_depth_var;
mx_at_start mx_atomic(uint32_t) mx_call_pending;
static void (*pending_run)(void);
static uintptr_t pending_of;  // the thread whose call it waits for

void mx_call_then(void (*run)(void)) {
  pending_run = run;
  pending_of = mx_thread_id();
  mx_store_release(&mx_call_pending, (uint32_t)MX_PENDING_AT_END);
  mx_fence_compiler();
  mx_call_ends_pending();
}

void mx_call_before_next(void (*run)(void)) {
  pending_run = run;
  mx_store_release(&mx_call_pending,
                   (uint32_t)(run != NULL ? MX_PENDING_AT_BEGIN : MX_PENDING_NONE));
}

// Milliseconds that a fork waits for another thread which does what is pending: that may wait in a
// handler for this fork.
#define FORK_MSECS ((uint64_t)5000)

// Takes what is pending for this thread to do, waiting while another one does it, so many
// milliseconds at the most (0: without end): what was there at last.
static uint32_t take_pending(uint64_t msecs) {
  const uint64_t begin = (msecs == 0 ? 0 : mx_os_clock_msecs());
  for (unsigned turn = 0;; turn++) {
    uint32_t state = mx_load_acquire(&mx_call_pending);
    if (state == MX_PENDING_NONE) return state;
    if (state != MX_PENDING_RUNS) {
      if (mx_cas_strong_acq_rel(&mx_call_pending, &state, (uint32_t)MX_PENDING_RUNS)) return state;
      continue;
    }
    if (msecs != 0 && mx_os_clock_msecs() - begin > msecs) return state;
    mx_pause(turn);
  }
}

static void end_running(uint32_t next) {
  uint32_t runs = MX_PENDING_RUNS;  // or a fork in a handler left another one
  mx_cas_strong_acq_rel(&mx_call_pending, &runs, next);
}

// A call inside of another one goes on without.
static void run_pending(void) {
  if (mx_call_depth > 1 || take_pending(0) == MX_PENDING_NONE) return;
  mx_call_enter_plainly();
  pending_run();
  mx_call_leave_plainly();
  end_running(MX_PENDING_NONE);
}

// A thread that was started meanwhile looks like one that vanished, and so do pages and slices that
// either of them is on its way with: then what there is stays as it is.
mx_cold void mx_call_begins_pending(void) {
  uint32_t at_end = MX_PENDING_AT_END;
  const bool waits = (mx_load_relaxed(&mx_call_pending) == at_end);
  if (waits && pending_of == mx_thread_id()) return;
  if (waits && mx_cas_strong_acq_rel(&mx_call_pending, &at_end, (uint32_t)MX_PENDING_NONE)) return;
  run_pending();
}

mx_cold void mx_call_ends_pending(void) {
  const bool is_over = (mx_call_depth == 0);
  if (is_over && mx_load_relaxed(&mx_call_pending) == MX_PENDING_AT_END) run_pending();
}

bool mx_call_hold_pending(bool* missed) {
  *missed = false;
  if (mx_load_acquire(&mx_call_pending) < MX_PENDING_AT_BEGIN) return false;
  const uint32_t state = take_pending(FORK_MSECS);
  *missed = (state == MX_PENDING_RUNS);
  return state != MX_PENDING_NONE && !*missed;
}

void mx_call_let_pending(void) { end_running(MX_PENDING_AT_BEGIN); }

#if defined(MI_NO_LIBC)
mx_thread_local uintptr_t mx_thread_number = MX_THREAD_UNNUMBERED;

uintptr_t mx_thread_take_number(void) {
  static mx_atomic(uintptr_t) last = MX_THREAD_UNNUMBERED;
  mx_thread_number = mx_add_relaxed(&last, 8) + 8;
  return mx_thread_number;
}
#elif defined(MX_THREAD_ANCHOR)
mx_thread_local MX_THREAD_ANCHOR mx_thread_anchor;
#endif
