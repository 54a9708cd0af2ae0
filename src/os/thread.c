// SPDX-License-Identifier: MIT
// What the thread's identity is made of where no register has it, and how deep a thread is in
// calls: see thread.h.
#include "thread.h"

#include "../base/lock.h"

mx_thread_local uint32_t mx_call_depth_var;
mx_at_start mx_atomic(uint32_t) mx_call_pending;
static void (*pending_run)(void);

void mx_call_then(void (*run)(void)) {
  pending_run = run;
  mx_store_release(&mx_call_pending, (uint32_t)MX_PENDING_AT_END);
  mx_fence_compiler();
  mx_call_ends_pending();
}

void mx_call_before_next(void (*run)(void)) {
  pending_run = run;
  mx_store_release(&mx_call_pending,
                   (uint32_t)(run != NULL ? MX_PENDING_AT_BEGIN : MX_PENDING_NONE));
}

// What is pending is this thread's to do: false where there is nothing any more. A call inside of
// another one goes on without.
static bool take_pending(void) {
  if (mx_call_depth > 1) return false;
  for (unsigned turn = 0;; turn++) {
    uint32_t state = mx_load_acquire(&mx_call_pending);
    if (state == MX_PENDING_NONE) return false;
    if (state == MX_PENDING_RUNS) {
      mx_pause(turn);
    } else if (mx_cas_strong_acq_rel(&mx_call_pending, &state, (uint32_t)MX_PENDING_RUNS)) {
      return true;
    }
  }
}

static void end_running(uint32_t next) {
  uint32_t runs = MX_PENDING_RUNS;  // or a fork in a handler left another one
  mx_cas_strong_acq_rel(&mx_call_pending, &runs, next);
}

static void run_pending(void) {
  if (!take_pending()) return;
  mx_call_enter_plainly();
  pending_run();
  mx_call_leave_plainly();
  end_running(MX_PENDING_NONE);
}

mx_cold void mx_call_begins_pending(void) {
  if (mx_load_relaxed(&mx_call_pending) != MX_PENDING_AT_END) run_pending();
}

mx_cold void mx_call_ends_pending(void) {
  const bool is_over = (mx_call_depth == 0);
  if (is_over && mx_load_relaxed(&mx_call_pending) == MX_PENDING_AT_END) run_pending();
}

bool mx_call_hold_pending(void) {
  return mx_load_acquire(&mx_call_pending) >= MX_PENDING_AT_BEGIN && take_pending();
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
