// SPDX-License-Identifier: MIT
// Owns the composition: start and end of the process, where the floors meet.
//
// Allocation itself starts lazily at its first use, whenever that is (a static constructor, the
// dynamic linker); what needs the environment, threads and messages starts here, once.
#include "root.h"

#include <pthread.h>

#include "../alloc/alloc.h"
#include "../base/hooks.h"
#include "../base/options.h"
#include "../os/os.h"
#include "../service/give_back.h"
#include "../service/log.h"
#include "../service/options.h"

static mx_atomic(int) started;

static void after_fork_in_child(void) {
  mx_heap_after_fork();
  mx_scavenger_after_fork();
}

void mx_process_start(void) {
  if (mx_exchange_acq_rel(&started, 1) != 0) return;
  mx_options_init();
  mx_log_init();
  mx_heap_start();
  mx_os_thread_setup(&mx_thread_done);
  // A theap that was made before there was a key must be told of its thread's end, too.
  if (mx_tls_theap->heap != NULL) mx_os_thread_arm(mx_tls_theap);
  pthread_atfork(&mx_heap_before_fork, &mx_heap_after_fork_parent, &after_fork_in_child);
  mx_limits_apply();
  mx_scavenger_apply();
  mx_log_ready();
}

#if defined(__GNUC__)
__attribute__((constructor(101))) static void on_load(void) { mx_process_start(); }
#endif
