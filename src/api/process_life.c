// SPDX-License-Identifier: MIT
// The composition: start and end of the process, where the floors meet.
//
// Allocation itself starts lazily at its first use, whenever that is (a static constructor, the
// dynamic linker); what needs the environment, threads and messages starts here, once.
//
// At the end the process' memory is the system's to take, so nothing is released, unless the
// library itself is about to go (dlclose) or an option says so.
#include "process_life.h"

#include <stdio.h>

#include "../../include/mimalloc.h"
#include "../alloc/alloc.h"
#include "../alloc/guarded.h"
#include "../alloc/harden.h"
#include "../alloc/sample.h"
#include "../alloc/spare.h"
#include "../base/facts.h"
#include "../base/hooks.h"
#include "../base/options.h"
#include "../heap/fork.h"
#include "../heap/subproc.h"
#include "../heap/thread_life.h"
#include "../host/residence.h"
#include "../mem/pagemap.h"
#include "../mem/random.h"
#include "../mem/settings.h"
#include "../mem/vmem.h"
#include "../os/libc.h"
#include "../os/os.h"
#include "../os/thread.h"
#include "../profile/profile.h"
#include "../service/give_back.h"
#include "../service/leaks.h"
#include "../service/log.h"
#include "../service/option_names.h"
#include "../service/report.h"
#include "../service/stack.h"
#include "../service/stats.h"
#include "../service/verify.h"

// What the options reserve_huge_os_pages may take of the start, in ms for each page.
#define RESERVE_MSECS 500

static mx_at_start mx_atomic(int) started;
static mx_at_start mx_atomic(int) ended;
static mx_at_start mx_atomic(int) watches_forks;

// Those of the floors above heaps.
static bool visit_upper_locks(mx_lock_visit_fn* visit) {
  return (!MX_LEAKS || mx_leaks_visit_locks(visit)) && mx_zero_sized_visit_locks(visit) &&
         mx_guarded_visit_locks(visit) && mx_prof_visit_control_locks(visit);
}

static bool take_all_locks(void) {
  return visit_upper_locks(&mx_fork_take) && mx_heap_before_fork();
}

static void let_go_of_locks(void) {
  mx_heap_after_fork_parent();
  visit_upper_locks(&mx_fork_let_go);
}

// A process with one thread writes nothing: what is written beside a fork is copied, in the parent
// or in the child, at the price of a fault. Its handlers lie beside each other for the same reason.
static bool needs_nothing(void) { return mx_libc_is_alone() && !mx_fork_has_begun(); }

mx_cold static void before_fork(void) {
  if (needs_nothing()) return;
  mx_fork_begin();
  while (!take_all_locks()) {
    let_go_of_locks();
    mx_fork_wait();
  }
}

mx_cold static void after_fork_in_parent(void) {
  if (needs_nothing()) return;
  let_go_of_locks();
  mx_fork_end();
}

mx_cold static void after_fork_in_child(void) {
  mx_random_after_fork();
  if (needs_nothing()) {
    if (mx_prof_is_prepared) mx_prof_after_fork(false);
    return;
  }
  const bool had_threads = mx_heap_after_fork();
  if (had_threads) mx_stack_stop();
  mx_prof_after_fork(had_threads);
  visit_upper_locks(&mx_fork_let_go_in_child);
  mx_scavenger_after_fork();
  mx_fork_end();
}

void mx_process_watch_forks(void) {
  if (mx_exchange_acq_rel(&watches_forks, 1) != 0) return;
  mx_libc_on_fork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
}

static bool is_of_first_thread(const mx_theap_t* first) {
  const uint32_t number = first->thread.number;
  return mx_option(background_purge) > 0 && number != 0 && number == mx_host_main_thread_number();
}

static void end_of_thread(void* first) {
  const bool was_first = is_of_first_thread((const mx_theap_t*)first);
  mx_thread_done(first);
  mx_scavenger_thread_ended(was_first);
}

static void reserve_at_start(void) {
  const long pages = mx_option(reserve_huge_os_pages);
  const long node = mx_option(reserve_huge_os_pages_at);
  const long size = mx_option(reserve_os_memory);
  if (pages > 0) {
    const size_t count = (size_t)pages, msecs = count * RESERVE_MSECS;
    const int code = (node >= 0 ? mi_reserve_huge_os_pages_at(count, (int)node, msecs)
                                : mi_reserve_huge_os_pages_interleave(count, 0, msecs));
    if (code != 0) mx_warning("option reserve_huge_os_pages: there is not one huge OS page\n");
  }
  if (size > 0 && mi_reserve_os_memory((size_t)size * MX_KIB, true, true) != 0) {
    mx_warning("option reserve_os_memory: unable to reserve %ld KiB\n", size);
  }
}

static void fix(void* p, size_t size) {
  mx_os_protect_writes(p, size, true);
  mx_os_seal(p, size);
}

// The page map is no part of it, whose tables become writable piece by piece; nor are records that
// come later: a sandbox that the program has entered may end it for a call that it does not know.
static void fix_what_stays(void) {
  if (!MX_READ_ONLY || mx_thread_theap() == NULL) return;
  mx_arenas_t* const arenas = &mx_subproc_main.arenas;
  const bool is_plain =
      (mx_option(disallow_os_alloc) == 0 && mx_option(disallow_arena_alloc) == 0 &&
       mx_option(allow_large_os_pages) == 0 && mx_option(arena_is_numa_local) == 0);
  if (is_plain && mx_load_acquire(&arenas->count) == 0) mx_arena_reserve(arenas, 1, -1);
  for (size_t i = mx_load_acquire(&arenas->count); i-- > 0;) {
    mx_arena_t* const arena = mx_arena_at(arenas, i);
    if (arena != NULL) mx_vmem_seal_meta(arena, arena->meta_size);
  }
  for (mx_meta_chunk_t* c = mx_load_acquire(&mx_meta_chunks); c != NULL; c = c->next) {
    mx_vmem_seal_meta(c, c->size);
  }
  fix(&mx_facts, sizeof(mx_facts));
  fix(&mx_hooks, sizeof(mx_hooks));
  fix(&mx_pagemap_root, sizeof(mx_pagemap_root));
  mx_settings_fix();
}

void mx_process_start(void) {
  if (mx_exchange_acq_rel(&started, 1) != 0) return;
  mx_options_init();
  mx_log_init();
  mx_stack_init();
  mx_heap_start();
  if (MX_LEAKS) mx_leaks_init();
  mx_os_thread_setup(&end_of_thread);
  // A theap that was made before there was a key must be told of its thread's end, too.
  if (mx_tls_theap->first != NULL) mx_os_thread_arm(mx_tls_theap->first);
  mx_process_watch_forks();
  mx_log_ready();
  mx_stats_init();
  mx_prof_init();
  mx_sample_apply();  // a theap that was made before the options were read
  if (mx_option(verbose) != 0) {
    mx_verbose("process init: 0x%zx\n", (size_t)mx_thread_id());
    mx_options_print(NULL, NULL);
  }
  mx_limits_apply();
  mx_scavenger_apply();
  mx_report_init();
  reserve_at_start();
  fix_what_stays();
}

static void print_stats(void) {
  mi_stats_t stats;
  mx_out_t out;
  mx_stats_of_subproc(&mx_subproc_main, &stats);
  mx_out_open(&out, NULL, NULL);
  mx_stats_print(&out, "subproc", 0, &stats);
}

// Whether the C library has blocks of this library, which it and the loader use to the very end.
static bool serves_libc(void) {
  void* const p = mx_libc_malloc(1);
  const bool serves = (p != NULL && mx_pagemap_find(p) != NULL);
  mx_libc_free(p);
  return serves;
}

void mx_process_end(void) {
  if (mx_load_relaxed(&started) == 0 || mx_exchange_acq_rel(&ended, 1) != 0) return;
  mx_scavenger_stop();
  mx_prof_finish();
  const bool prints = (mx_option(show_stats) != 0 || mx_option(verbose) != 0);
  if (prints && !MX_SKIP_COLLECT_ON_EXIT) {
    mx_spare_flush(mx_tls_theap);
    mx_thread_collect(true);
  }
  if (prints) print_stats();
  if (mx_option(show_report) != 0) mi_report(MI_REPORT_TEXT, NULL, NULL);
  if (MX_PADDING) mx_verify_at_end();
  if (MX_LEAKS && mx_option(leak_report) > 0) mx_leaks_print();
  mx_verbose("process done: 0x%zx\n", (size_t)mx_thread_id());
  const long destroys = mx_option(destroy_on_exit);
  if (destroys == 0 || (destroys == 1 && serves_libc())) return;
  // Streams are written out later than this, from buffers that may be ours.
  fflush(NULL);
  mx_subproc_destroy_all();
}

static void end_by_itself(void) {
  // The background thread cannot answer any more.
  if (mx_libc_threads_are_gone()) mx_scavenger_after_fork();
  if (mx_option(destroy_on_exit) <= 1) mx_process_end();
  // Threads that end from now on find the library and their memory, or do not ask.
  if (!MX_STAYS_LOADED || mx_option(destroy_on_exit) != 0) mx_os_thread_setup(NULL);
}

mx_on_load static void on_load(void) { mx_process_start(); }

mx_on_unload static void on_unload(void) { end_by_itself(); }
