// SPDX-License-Identifier: MIT
/// @file mimalloc-stats.h
/// The statistics of the mimalloc allocator as a record. The calls that print them, or give them as
/// JSON, are in mimalloc.h.
///
/// The record carries its own size and version, and the library fills it only if it knows both, so
/// a program and a library of different releases never write past each other's. Fields keep their
/// place within a version; new ones take the place of the reserved ones.
#ifndef MIMALLOC_STATS_H
#define MIMALLOC_STATS_H

#include "mimalloc.h"

#include <stdint.h>
#include <string.h>

/// @addtogroup stats
/// @{

/// The version of ::mi_stats_t: 5, or 4 with an #MI_API_VERSION below 3.
#if MI_API_VERSION >= 3
#define MI_STAT_VERSION 5
#else
#define MI_STAT_VERSION 4
#endif

/// The last bin, which counts all blocks that are larger than the other bins'.
#define MI_BIN_HUGE (73U)

/// Something that goes up and down.
typedef struct mi_stat_count_s {
  int64_t total;    ///< the sum of all increases
  int64_t peak;     ///< the most there was at a time
  int64_t current;  ///< how much there is
} mi_stat_count_t;

/// Something that only happens.
typedef struct mi_stat_counter_s {
  int64_t total;  ///< how often, or how much in all
} mi_stat_counter_t;

#if MI_API_VERSION >= 3
/// What a chunk of an arena is used for.
typedef enum mi_chunkbin_e {
  MI_CBIN_SMALL,   ///< pages of one slice
  MI_CBIN_OTHER,   ///< anything else
  MI_CBIN_MEDIUM,  ///< pages of a medium size
  MI_CBIN_LARGE,   ///< large pages
  MI_CBIN_HUGE,    ///< blocks alone in their page
  MI_CBIN_NONE,    ///< nothing yet
  MI_CBIN_COUNT    ///< how many kinds there are
} mi_chunkbin_t;
#endif

/// The statistics. Memory is in bytes; "pages" are the allocator's own, runs of equal-sized blocks.
/// What a build does not count stays 0: release builds leave out the counts per block.
typedef struct mi_stats_s {
  size_t size;     ///< the size of this record, set by mi_stats_init()
  size_t version;  ///< #MI_STAT_VERSION, set by mi_stats_init()

  mi_stat_count_t pages;                   ///< pages in use
  mi_stat_count_t reserved;                ///< address space reserved
  mi_stat_count_t committed;               ///< memory committed
  mi_stat_counter_t reset;                 ///< memory reset (left to the system to take)
  mi_stat_counter_t purged;                ///< memory purged
  mi_stat_count_t page_committed;          ///< memory committed inside pages
  mi_stat_count_t pages_abandoned;         ///< pages without a thread
  mi_stat_count_t threads;                 ///< threads
  mi_stat_count_t malloc_normal;           ///< memory in blocks that share a page
  mi_stat_count_t malloc_huge;             ///< memory in blocks alone in their page
  mi_stat_count_t malloc_requested;        ///< memory that the program asked for
  mi_stat_counter_t mmap_calls;            ///< calls to get address space
  mi_stat_counter_t commit_calls;          ///< calls to commit memory
  mi_stat_counter_t reset_calls;           ///< calls to reset memory
  mi_stat_counter_t purge_calls;           ///< calls to purge memory
  mi_stat_counter_t arena_count;           ///< arenas made
  mi_stat_counter_t malloc_normal_count;   ///< blocks that share a page
  mi_stat_counter_t malloc_huge_count;     ///< blocks alone in their page
  mi_stat_counter_t malloc_guarded_count;  ///< blocks put against a guard page
  mi_stat_counter_t arena_rollback_count;  ///< claims in arenas that were undone
  mi_stat_counter_t arena_purges;          ///< visits of arenas to purge them
  mi_stat_counter_t pages_extended;        ///< pages that got more blocks
  mi_stat_counter_t pages_retire;          ///< empty pages kept for a while
  mi_stat_counter_t page_searches;         ///< pages looked at in searches for one
  mi_stat_counter_t page_searches_count;   ///< searches for a page
  mi_stat_count_t segments;                ///< version 1 and 2 only, 0
  mi_stat_count_t segments_abandoned;      ///< version 1 and 2 only, 0
  mi_stat_count_t segments_cache;          ///< version 1 and 2 only, 0
  mi_stat_count_t _segments_reserved;      ///< version 1 and 2 only, 0
#if MI_API_VERSION >= 3
  mi_stat_count_t heaps;   ///< heaps
  mi_stat_count_t theaps;  ///< thread-heaps
#endif
  mi_stat_counter_t pages_reclaim_on_alloc;     ///< abandoned pages taken by an allocation
  mi_stat_counter_t pages_reclaim_on_free;      ///< abandoned pages taken by a free
  mi_stat_counter_t pages_reabandon_full;       ///< taken pages given up again as full
  mi_stat_counter_t pages_unabandon_busy_wait;  ///< waits for a page that changed its owner
#if MI_API_VERSION >= 3
  mi_stat_counter_t heaps_delete_wait;  ///< waits of a heap's end for another thread
#endif
  mi_stat_count_t _stat_reserved[4];            ///< for later use
  mi_stat_counter_t _stat_counter_reserved[4];  ///< for later use

  mi_stat_count_t malloc_bins[MI_BIN_HUGE + 1];  ///< blocks by size, see mi_stats_get_bin_size()
  mi_stat_count_t page_bins[MI_BIN_HUGE + 1];    ///< pages by the size of their blocks
#if MI_API_VERSION >= 3
  mi_stat_count_t chunk_bins[MI_CBIN_COUNT];  ///< chunks of arenas by ::mi_chunkbin_t
#endif
} mi_stats_t;

/// Prepares a record: size and version set, all numbers 0.
static inline void mi_stats_init(mi_stats_t* stats) mi_attr_noexcept {
  memset(stats, 0, sizeof(*stats));
  stats->size = sizeof(*stats);
  stats->version = MI_STAT_VERSION;
}

/// Defines a variable `name` of type ::mi_stats_t and prepares it; a statement inside a function.
#define mi_stats_t_decl(name) \
  mi_stats_t name;            \
  mi_stats_init(&name)

#ifdef __cplusplus
extern "C" {
#endif

#if MI_API_VERSION < 3
#define mi_subproc_id_t mi_v3_subproc_id_t  // the library's type, see the end of mimalloc.h
#endif

/// Gets the statistics of the sub-process of the calling thread, all of its heaps together.
/// @param stats  prepared by mi_stats_init()
/// @returns false, with nothing written, if `stats` is NULL or its size or version unknown
mi_decl_export bool mi_stats_get(mi_stats_t* stats) mi_attr_noexcept;

/// As mi_stats_get() for one heap (NULL: the main one).
mi_decl_export bool mi_heap_stats_get(mi_heap_t* heap, mi_stats_t* stats) mi_attr_noexcept;

/// As mi_stats_get() for one sub-process; false also if there is no such one.
mi_decl_export bool mi_subproc_stats_get(mi_subproc_id_t subproc_id, mi_stats_t* stats)
  mi_attr_noexcept;

/// As mi_subproc_stats_get(), but only what is counted for the sub-process itself, without the
/// numbers of its live heaps.
mi_decl_export bool mi_subproc_stats_get_exclusive(mi_subproc_id_t subproc_id, mi_stats_t* stats)
  mi_attr_noexcept;

/// Writes a record as JSON.
/// @param stats     the record
/// @param buf_size  the size of `buf` in bytes
/// @param buf       gets the text, cut off if it does not fit but always ended by a zero byte; or
///                  NULL for a new block, to be freed with mi_free()
/// @returns the text; NULL for a wrong record, or with errno ENOMEM
mi_decl_export char* mi_stats_as_json(mi_stats_t* stats, size_t buf_size, char* buf)
  mi_attr_noexcept;

#if MI_API_VERSION < 3
#undef mi_subproc_id_t

static inline bool mi_v2_subproc_stats_get(mi_subproc_id_t subproc_id, mi_stats_t* stats)
  mi_attr_noexcept {
  return mi_subproc_stats_get(mi_v2_subproc(subproc_id), stats);
}
static inline bool mi_v2_subproc_stats_get_exclusive(mi_subproc_id_t subproc_id, mi_stats_t* stats)
  mi_attr_noexcept {
  return mi_subproc_stats_get_exclusive(mi_v2_subproc(subproc_id), stats);
}
#define mi_subproc_stats_get mi_v2_subproc_stats_get
#define mi_subproc_stats_get_exclusive mi_v2_subproc_stats_get_exclusive
#endif

#ifdef __cplusplus
}  // extern "C"
#endif

/// @}

#endif  // MIMALLOC_STATS_H
