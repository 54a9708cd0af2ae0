// SPDX-License-Identifier: MIT
// Owns the current values of the options: plain data that any floor may read.
//
// Names, parsing, the environment and deprecated spellings live in the service floor, which
// writes here; a value is a relaxed atomic, since mi_option_set may come from any thread.
// Size options hold KiB. The numbering is the public enum's (mi_option_t).
#ifndef MX_BASE_OPTIONS_H
#define MX_BASE_OPTIONS_H

#include "atomic.h"
#include "config.h"
#include "defaults.h"

// X(name, default): in the order of the public enum, which must not change. The defaults are in
// defaults.h.
#define MX_OPTIONS(X)                                                            \
  X(show_errors, MI_DEFAULT_SHOW_ERRORS)                                         \
  X(show_stats, MI_DEFAULT_SHOW_STATS)                                           \
  X(verbose, MI_DEFAULT_VERBOSE)                                                 \
  X(deprecated_eager_commit, MI_DEFAULT_DEPRECATED_EAGER_COMMIT)                 \
  X(arena_eager_commit, MI_DEFAULT_ARENA_EAGER_COMMIT)                           \
  X(purge_decommits, MI_DEFAULT_PURGE_DECOMMITS)                                 \
  X(allow_large_os_pages, MI_DEFAULT_ALLOW_LARGE_OS_PAGES)                       \
  X(reserve_huge_os_pages, MI_DEFAULT_RESERVE_HUGE_OS_PAGES)                     \
  X(reserve_huge_os_pages_at, MI_DEFAULT_RESERVE_HUGE_OS_PAGES_AT)               \
  X(reserve_os_memory, MI_DEFAULT_RESERVE_OS_MEMORY)                             \
  X(deprecated_segment_cache, MI_DEFAULT_DEPRECATED_SEGMENT_CACHE)               \
  X(deprecated_page_reset, MI_DEFAULT_DEPRECATED_PAGE_RESET)                     \
  X(deprecated_abandoned_page_purge, MI_DEFAULT_DEPRECATED_ABANDONED_PAGE_PURGE) \
  X(deprecated_segment_reset, MI_DEFAULT_DEPRECATED_SEGMENT_RESET)               \
  X(deprecated_eager_commit_delay, MI_DEFAULT_DEPRECATED_EAGER_COMMIT_DELAY)     \
  X(purge_delay, MI_DEFAULT_PURGE_DELAY)                                         \
  X(use_numa_nodes, MI_DEFAULT_USE_NUMA_NODES)                                   \
  X(disallow_os_alloc, MI_DEFAULT_DISALLOW_OS_ALLOC)                             \
  X(os_tag, MI_DEFAULT_OS_TAG)                                                   \
  X(max_errors, MI_DEFAULT_MAX_ERRORS)                                           \
  X(max_warnings, MI_DEFAULT_MAX_WARNINGS)                                       \
  X(deprecated_max_segment_reclaim, MI_DEFAULT_DEPRECATED_MAX_SEGMENT_RECLAIM)   \
  X(destroy_on_exit, MI_DEFAULT_DESTROY_ON_EXIT)                                 \
  X(arena_reserve, MI_DEFAULT_ARENA_RESERVE)                                     \
  X(arena_purge_mult, MI_DEFAULT_ARENA_PURGE_MULT)                               \
  X(deprecated_purge_extend_delay, MI_DEFAULT_DEPRECATED_PURGE_EXTEND_DELAY)     \
  X(disallow_arena_alloc, MI_DEFAULT_DISALLOW_ARENA_ALLOC)                       \
  X(retry_on_oom, MI_DEFAULT_RETRY_ON_OOM)                                       \
  X(visit_abandoned, MI_DEFAULT_VISIT_ABANDONED)                                 \
  X(guarded_min, MI_DEFAULT_GUARDED_MIN)                                         \
  X(guarded_max, MI_DEFAULT_GUARDED_MAX)                                         \
  X(guarded_precise, MI_DEFAULT_GUARDED_PRECISE)                                 \
  X(guarded_sample_rate, MI_DEFAULT_GUARDED_SAMPLE_RATE)                         \
  X(guarded_sample_seed, MI_DEFAULT_GUARDED_SAMPLE_SEED)                         \
  X(generic_collect, MI_DEFAULT_GENERIC_COLLECT)                                 \
  X(page_reclaim_on_free, MI_DEFAULT_PAGE_RECLAIM_ON_FREE)                       \
  X(page_full_retain, MI_DEFAULT_PAGE_FULL_RETAIN)                               \
  X(page_max_candidates, MI_DEFAULT_PAGE_MAX_CANDIDATES)                         \
  X(max_vabits, MI_DEFAULT_MAX_VABITS)                                           \
  X(pagemap_commit, MI_DEFAULT_PAGEMAP_COMMIT)                                   \
  X(page_commit_on_demand, MI_DEFAULT_PAGE_COMMIT_ON_DEMAND)                     \
  X(page_max_reclaim, MI_DEFAULT_PAGE_MAX_RECLAIM)                               \
  X(page_cross_thread_max_reclaim, MI_DEFAULT_PAGE_CROSS_THREAD_MAX_RECLAIM)     \
  X(allow_thp, MI_DEFAULT_ALLOW_THP)                                             \
  X(minimal_purge_size, MI_DEFAULT_MINIMAL_PURGE_SIZE)                           \
  X(arena_max_object_size, MI_DEFAULT_ARENA_MAX_OBJECT_SIZE)                     \
  X(arena_is_numa_local, MI_DEFAULT_ARENA_IS_NUMA_LOCAL)                         \
  X(background_purge, MI_DEFAULT_BACKGROUND_PURGE)                               \
  X(memory_limit, MI_DEFAULT_MEMORY_LIMIT)                                       \
  X(memory_limit_hard, MI_DEFAULT_MEMORY_LIMIT_HARD)                             \
  X(cgroup_limit, MI_DEFAULT_CGROUP_LIMIT)                                       \
  X(abort_on_error, MI_DEFAULT_ABORT_ON_ERROR)                                   \
  X(zero_on_free, MI_DEFAULT_ZERO_ON_FREE)                                       \
  X(leak_report, MI_DEFAULT_LEAK_REPORT)                                         \
  X(purge_holes, MI_DEFAULT_PURGE_HOLES)

#define MX_OPTION_ENUM(name, value) mx_opt_##name,
typedef enum mx_option_e { MX_OPTIONS(MX_OPTION_ENUM) mx_opt_count } mx_option_t;

extern mx_atomic(long) mx_option_values[mx_opt_count];

// The value of an option, as `mx_option(purge_delay)`.
#define mx_option(name) mx_load_relaxed(&mx_option_values[mx_opt_##name])

#endif
