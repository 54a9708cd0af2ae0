// SPDX-License-Identifier: MIT
// Owns what the thread's identity is made of where no register has it: see thread.h.
#include "thread.h"

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
