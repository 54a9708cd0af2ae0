// SPDX-License-Identifier: MIT
// The moments at which the program's deferred-free function runs: one beat each, and a beat
// counts only with the thread that it is of, so the count follows from what the thread allocates.
#include "../base/hooks.h"
#include "heap.h"

void mx_theap_deferred_free(mx_theap_t* theap, bool force) {
  mx_theap_t* const first = theap->first;
  mx_deferred_fn* const run = mx_load_relaxed(&mx_hooks.deferred_free);
  if (run == NULL || first->thread.in_deferred_free) return;
  first->thread.in_deferred_free = true;
  run(force, ++first->thread.heartbeat);
  first->thread.in_deferred_free = false;
}
