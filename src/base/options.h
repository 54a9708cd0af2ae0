// SPDX-License-Identifier: MIT
// The current values of the options, and what else calls of the API alone change: plain data that
// any floor may read, and that is written between mx_settings_open and _close (mem/settings.h).
//
// Names, parsing, the environment and deprecated spellings live in the service floor, which
// writes here; a value is a relaxed atomic, since mi_option_set may come from any thread.
// Size options hold KiB. The numbering is the public enum's (mi_option_t).
#ifndef MX_BASE_OPTIONS_H
#define MX_BASE_OPTIONS_H

#include <limits.h>

#include "atomic.h"
#include "config.h"
#include "defaults.h"

#define MX_NUMA_MAX 1024         // nodes that the kernel can number
#define MX_HUGE_PAGES_MAX 65536  // of 1 GiB
#define MX_KIB_MAX (MX_MAX_ALLOC / MX_KIB < LONG_MAX ? (long)(MX_MAX_ALLOC / MX_KIB) : LONG_MAX)
#define MX_PROF_RATE_MAX ((size_t)1 << 30)
#define MX_PROF_KIB_MAX (MX_64BIT ? 1L << 22 : 1L << 17)
#define MX_ARENA_KIB_MAX (MX_64BIT ? 1L << 28 : 1L << 20)

// X(name, what follows MI_DEFAULT_ in defaults.h, least, most): in the order of the public enum,
// which must not change. A value beyond the range becomes its nearest end. What has no range is
// right with any value; its readers need not check it.
#define MX_OPTIONS(X)                                                                     \
  X(show_errors, SHOW_ERRORS, 0, LONG_MAX)                                                \
  X(show_stats, SHOW_STATS, 0, LONG_MAX)                                                  \
  X(verbose, VERBOSE, 0, LONG_MAX)                                                        \
  X(deprecated_eager_commit, DEPRECATED_EAGER_COMMIT, LONG_MIN, LONG_MAX)                 \
  X(arena_eager_commit, ARENA_EAGER_COMMIT, 0, 2)                                         \
  X(purge_decommits, PURGE_DECOMMITS, 0, LONG_MAX)                                        \
  X(allow_large_os_pages, ALLOW_LARGE_OS_PAGES, 0, LONG_MAX)                              \
  X(reserve_huge_os_pages, RESERVE_HUGE_OS_PAGES, 0, MX_HUGE_PAGES_MAX)                   \
  X(reserve_huge_os_pages_at, RESERVE_HUGE_OS_PAGES_AT, -1, MX_NUMA_MAX - 1)              \
  X(reserve_os_memory, RESERVE_OS_MEMORY, 0, MX_KIB_MAX)                                  \
  X(deprecated_segment_cache, DEPRECATED_SEGMENT_CACHE, LONG_MIN, LONG_MAX)               \
  X(deprecated_page_reset, DEPRECATED_PAGE_RESET, LONG_MIN, LONG_MAX)                     \
  X(deprecated_abandoned_page_purge, DEPRECATED_ABANDONED_PAGE_PURGE, LONG_MIN, LONG_MAX) \
  X(deprecated_segment_reset, DEPRECATED_SEGMENT_RESET, LONG_MIN, LONG_MAX)               \
  X(deprecated_eager_commit_delay, DEPRECATED_EAGER_COMMIT_DELAY, LONG_MIN, LONG_MAX)     \
  X(purge_delay, PURGE_DELAY, -1, LONG_MAX)                                               \
  X(use_numa_nodes, USE_NUMA_NODES, 0, MX_NUMA_MAX)                                       \
  X(disallow_os_alloc, DISALLOW_OS_ALLOC, 0, LONG_MAX)                                    \
  X(os_tag, OS_TAG, LONG_MIN, LONG_MAX)                                                   \
  X(max_errors, MAX_ERRORS, LONG_MIN, LONG_MAX)                                           \
  X(max_warnings, MAX_WARNINGS, LONG_MIN, LONG_MAX)                                       \
  X(deprecated_max_segment_reclaim, DEPRECATED_MAX_SEGMENT_RECLAIM, LONG_MIN, LONG_MAX)   \
  X(destroy_on_exit, DESTROY_ON_EXIT, 0, 2)                                               \
  X(arena_reserve, ARENA_RESERVE, 0, MX_ARENA_KIB_MAX)                                    \
  X(arena_purge_mult, ARENA_PURGE_MULT, 0, 1000000)                                       \
  X(deprecated_purge_extend_delay, DEPRECATED_PURGE_EXTEND_DELAY, LONG_MIN, LONG_MAX)     \
  X(disallow_arena_alloc, DISALLOW_ARENA_ALLOC, 0, LONG_MAX)                              \
  X(retry_on_oom, RETRY_ON_OOM, 0, 3600000)                                               \
  X(visit_abandoned, VISIT_ABANDONED, 0, LONG_MAX)                                        \
  X(guarded_min, GUARDED_MIN, 0, LONG_MAX)                                                \
  X(guarded_max, GUARDED_MAX, 0, LONG_MAX)                                                \
  X(guarded_precise, GUARDED_PRECISE, 0, LONG_MAX)                                        \
  X(guarded_sample_rate, GUARDED_SAMPLE_RATE, 0, 1 << 30)                                 \
  X(guarded_sample_seed, GUARDED_SAMPLE_SEED, LONG_MIN, LONG_MAX)                         \
  X(generic_collect, GENERIC_COLLECT, 0, INT32_MAX)                                       \
  X(page_reclaim_on_free, PAGE_RECLAIM_ON_FREE, -1, 1)                                    \
  X(page_full_retain, PAGE_FULL_RETAIN, -1, 32)                                           \
  X(page_max_candidates, PAGE_MAX_CANDIDATES, 0, 64)                                      \
  X(max_vabits, MAX_VABITS, 0, 64)                                                        \
  X(pagemap_commit, PAGEMAP_COMMIT, 0, LONG_MAX)                                          \
  X(page_commit_on_demand, PAGE_COMMIT_ON_DEMAND, LONG_MIN, LONG_MAX)                     \
  X(page_max_reclaim, PAGE_MAX_RECLAIM, LONG_MIN, LONG_MAX)                               \
  X(page_cross_thread_max_reclaim, PAGE_CROSS_THREAD_MAX_RECLAIM, 0, 4096)                \
  X(allow_thp, ALLOW_THP, 0, 2)                                                           \
  X(minimal_purge_size, MINIMAL_PURGE_SIZE, 0, MX_KIB_MAX)                                \
  X(arena_max_object_size, ARENA_MAX_OBJECT_SIZE, 0, MX_KIB_MAX)                          \
  X(arena_is_numa_local, ARENA_IS_NUMA_LOCAL, 0, LONG_MAX)                                \
  X(background_purge, BACKGROUND_PURGE, 0, LONG_MAX)                                      \
  X(memory_limit, MEMORY_LIMIT, 0, MX_KIB_MAX)                                            \
  X(memory_limit_hard, MEMORY_LIMIT_HARD, 0, LONG_MAX)                                    \
  X(cgroup_limit, CGROUP_LIMIT, 0, LONG_MAX)                                              \
  X(abort_on_error, ABORT_ON_ERROR, -1, 1)                                                \
  X(zero_on_free, ZERO_ON_FREE, 0, LONG_MAX)                                              \
  X(leak_report, LEAK_REPORT, 0, 2)                                                       \
  X(purge_holes, PURGE_HOLES, 0, LONG_MAX)                                                \
  X(ignore_deepbind, IGNORE_DEEPBIND, 0, LONG_MAX)                                        \
  X(show_report, SHOW_REPORT, 0, LONG_MAX)                                                \
  X(report_signal, REPORT_SIGNAL, 0, 64)                                                  \
  X(prof, PROF, 0, LONG_MAX)                                                              \
  X(prof_rate, PROF_RATE, 0, 1 << 30)                                                     \
  X(prof_depth, PROF_DEPTH, 0, 128)                                                       \
  X(prof_memory, PROF_MEMORY, 0, MX_PROF_KIB_MAX)                                         \
  X(prof_at_exit, PROF_AT_EXIT, 0, LONG_MAX)                                              \
  X(prof_signal, PROF_SIGNAL, 0, 64)                                                      \
  X(prof_interval, PROF_INTERVAL, 0, LONG_MAX)                                            \
  X(prof_peak, PROF_PEAK, 0, LONG_MAX)                                                    \
  X(prof_at_limit, PROF_AT_LIMIT, 0, LONG_MAX)                                            \
  X(prof_pins, PROF_PINS, 0, LONG_MAX)                                                    \
  X(check_every, CHECK_EVERY, 0, LONG_MAX)                                                \
  X(theap_retain, THEAP_RETAIN, 0, 8)

#define MX_OPTION_ENUM(name, caps, least, most) mx_opt_##name,
typedef enum mx_option_e { MX_OPTIONS(MX_OPTION_ENUM) mx_opt_count } mx_option_t;

// The program's functions; each is called with the argument behind it.
typedef void(mx_output_fun)(const char* text, void* arg);
typedef void(mx_error_fun)(int code, void* arg);
typedef void(mx_deferred_fun)(bool force, unsigned long long heartbeat, void* arg);

#define MX_IN_PLACE_MOST(zero_on_free) ((zero_on_free) != 0 ? 0 : MX_SMALL_MAX)

typedef struct mx_own_page mx_settings_s {
  mx_atomic(long) option_values[mx_opt_count];
  // In builds that clear freed blocks: the largest cleared in place, as MX_IN_PLACE_MOST says.
  mx_atomic(size_t) in_place_most;
  // The key of the random numbers.
  mx_atomic(uint64_t) key0;
  mx_atomic(uint64_t) key1;
  mx_atomic(mx_output_fun*) output_fun;
  mx_atomic(void*) output_arg;
  mx_atomic(mx_error_fun*) error_fun;
  mx_atomic(void*) error_arg;
  mx_atomic(mx_deferred_fun*) deferred_fun;
  mx_atomic(void*) deferred_arg;
} mx_settings_t;

extern mx_hidden mx_settings_t mx_settings;
#define mx_option_values mx_settings.option_values

// The value of an option, as `mx_option(purge_delay)`.
#define mx_option(name) mx_load_relaxed(&mx_option_values[mx_opt_##name])

#endif
