// SPDX-License-Identifier: MIT
// What the thread's identity is made of where no register has it, and how deep a thread is in
// calls: see thread.h.
#include "thread.h"

mx_thread_local uint32_t mx_call_depth_var;
mx_at_start mx_atomic(uint32_t) mx_call_pending;  // the child of a fork has something to set right
static void (*pending_run)(void);

void mx_call_then(void (*run)(void)) {
  pending_run = run;
  mx_store_relaxed(&mx_call_pending, (uint32_t)1);
  mx_fence_compiler();
  if (mx_call_depth == 0) mx_call_run_pending();
}

void mx_call_run_pending(void) {
  if (mx_exchange_relaxed(&mx_call_pending, (uint32_t)0) != 0) pending_run();
}

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
