// SPDX-License-Identifier: MIT
// The table of the numbers in a record: their names and what they mean, once for all formats.
#include "stats.h"

#define COUNT(name, help) {#name, help, offsetof(mi_stats_t, name), MX_STAT_COUNT, false},
#define COUNT_BYTES(name, help) {#name, help, offsetof(mi_stats_t, name), MX_STAT_COUNT, true},
#define COUNTER(name, help) {#name, help, offsetof(mi_stats_t, name), MX_STAT_COUNTER, false},
#define COUNTER_BYTES(name, help) {#name, help, offsetof(mi_stats_t, name), MX_STAT_COUNTER, true},

const mx_stat_field_t mx_stat_fields[] = {
    COUNT(pages, "pages in use, runs of equal-sized blocks")
    COUNT_BYTES(reserved, "reserved address space")
    COUNT_BYTES(committed, "memory in use or used before and not yet given back")
    COUNTER_BYTES(reset, "memory left to the system to take when it needs some")
    COUNTER_BYTES(purged, "memory given back to the system")
    COUNT_BYTES(page_committed, "memory of which blocks have been made")
    COUNT(pages_abandoned, "pages without a thread")
    COUNT(threads, "threads")
    COUNT_BYTES(malloc_normal, "blocks that share a page")
    COUNT_BYTES(malloc_huge, "blocks alone in their page")
    COUNT_BYTES(malloc_requested, "memory that the program asked for")
    COUNTER(mmap_calls, "calls to get address space")
    COUNTER(commit_calls, "calls to commit memory")
    COUNTER(reset_calls, "calls to reset memory")
    COUNTER(purge_calls, "calls to purge memory")
    COUNTER(arena_count, "arenas made")
    COUNTER(malloc_normal_count, "blocks made that share a page")
    COUNTER(malloc_huge_count, "blocks made that are alone in their page")
    COUNTER(malloc_guarded_count, "blocks put against a guard page")
    COUNTER(arena_rollback_count, "claims in arenas that were undone")
    COUNTER(arena_purges, "visits of arenas to purge them")
    COUNTER(pages_extended, "times that a page got more blocks")
    COUNTER(pages_retire, "empty pages kept for a while")
    COUNTER(page_searches, "abandoned pages looked at in searches for one")
    COUNTER(page_searches_count, "searches for an abandoned page")
    COUNT(segments, "always 0")
    COUNT(segments_abandoned, "always 0")
    COUNT(segments_cache, "always 0")
    COUNT(heaps, "heaps")
    COUNT(theaps, "thread-heaps")
    COUNTER(pages_reclaim_on_alloc, "abandoned pages taken by an allocation")
    COUNTER(pages_reclaim_on_free, "abandoned pages taken by a free")
    COUNTER(pages_reabandon_full, "always 0")
    COUNTER(pages_unabandon_busy_wait, "always 0")
    COUNTER(heaps_delete_wait, "waits of a heap's end for another thread")
    {"metadata", "memory for the library's own records", offsetof(mi_stats_t, mx_stat_metadata),
     MX_STAT_COUNT, true},
    {"waiting", "free memory that waits to be given back", offsetof(mi_stats_t, mx_stat_waiting),
     MX_STAT_LEVEL, true},
    {"holes_purged", "memory given back from inside pages in use",
     offsetof(mi_stats_t, mx_stat_holes_purged), MX_STAT_COUNTER, true},
};

const size_t mx_stat_field_count = sizeof(mx_stat_fields) / sizeof(mx_stat_fields[0]);
