// SPDX-License-Identifier: MIT
// What the child of a fork puts off: src/os/thread.c, which the other scenarios do without, as
// none of their threads forks.
#include "../../src/base/lock.h"
#include "../../src/os/os.h"
#include "explore.h"

#undef MX_OS_THREAD_H
#undef mx_thread_id
#undef mx_thread_is
#undef mx_thread_apart
#undef mx_call_enter
#undef mx_call_enter_plainly
#undef mx_call_leave
#undef mx_call_depth
#undef mx_call_then
#undef mx_call_before_next
#undef mx_call_do_pending
#undef mx_call_is_pending
#undef mx_call_hold_pending
#undef mx_call_let_pending
#include "../../src/os/thread.c"

static int repaired;  // no atomic: what a call does after it must be ordered by the word alone
static int forked;    // what the child has

static void repair(void) {
  ex_check(mx_call_depth == 2);
  mx_call_enter();  // as what it does may; nothing is pending for that one
  repaired++;
  mx_call_leave();
}

static void pending_setup(void) {
  ex_thread_variable(&mx_call_depth_var, sizeof(mx_call_depth_var));
  mx_call_before_next(repair);
}

static void calls(void) {
  mx_call_enter();
  ex_check(repaired == 1);
  mx_call_leave();
  ex_check(mx_call_depth == 0);
}

static void forks(void) {
  bool missed;
  const bool holds = mx_call_hold_pending(&missed);
  ex_check(!missed);
  forked = repaired;
  ex_check(forked == (holds ? 0 : 1));
  if (holds) mx_call_let_pending();
}

static void pending_check(void) {
  ex_check(repaired == 1 && !mx_call_is_pending());
}

const ex_scenario_t ex_calls_scenarios[] = {
    {"pending", pending_setup, {calls, calls, calls}, pending_check, 2, 1},
    {"pending-fork", pending_setup, {calls, forks, calls}, pending_check, 2, 1},
    {NULL, NULL, {NULL, NULL, NULL}, NULL, 0, 0},
};
