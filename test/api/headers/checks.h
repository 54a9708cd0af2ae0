// SPDX-License-Identifier: MIT
// Compile-time checks shared by the C and the C++ test: constants, the numbers of the options, and
// the layout of the records that programs and the library exchange.
#ifndef CHECKS_H
#define CHECKS_H

#include <mimalloc-stats.h>
#include <stddef.h>

// An array of negative size is an error in every standard.
#define CHECK_JOIN(a, b) a##b
#define CHECK_NAME(line) CHECK_JOIN(check_line_, line)
#define CHECK(condition) typedef char CHECK_NAME(__LINE__)[(condition) ? 1 : -1]
#define CHECK_OPTION(name, number) CHECK((int)mi_option_##name == (number))

CHECK(MI_MALLOC_VERSION == 30500);
CHECK(MI_SMALL_WSIZE_MAX == 128);
CHECK(MI_SMALL_SIZE_MAX == 128 * sizeof(void*));
CHECK(MI_BIN_HUGE == 73);

CHECK_OPTION(show_errors, 0);
CHECK_OPTION(show_stats, 1);
CHECK_OPTION(verbose, 2);
CHECK_OPTION(eager_commit, 3);
CHECK_OPTION(arena_eager_commit, 4);
CHECK_OPTION(purge_decommits, 5);
CHECK_OPTION(allow_large_os_pages, 6);
CHECK_OPTION(reserve_huge_os_pages, 7);
CHECK_OPTION(reserve_huge_os_pages_at, 8);
CHECK_OPTION(reserve_os_memory, 9);
CHECK_OPTION(deprecated_segment_cache, 10);
CHECK_OPTION(deprecated_page_reset, 11);
CHECK_OPTION(abandoned_page_purge, 12);
CHECK_OPTION(deprecated_segment_reset, 13);
CHECK_OPTION(eager_commit_delay, 14);
CHECK_OPTION(purge_delay, 15);
CHECK_OPTION(use_numa_nodes, 16);
CHECK_OPTION(disallow_os_alloc, 17);
CHECK_OPTION(os_tag, 18);
CHECK_OPTION(max_errors, 19);
CHECK_OPTION(max_warnings, 20);
CHECK_OPTION(max_segment_reclaim, 21);
CHECK_OPTION(destroy_on_exit, 22);
CHECK_OPTION(arena_reserve, 23);
CHECK_OPTION(arena_purge_mult, 24);
CHECK_OPTION(purge_extend_delay, 25);

// Older names, in both generations.
CHECK_OPTION(large_os_pages, 6);
CHECK_OPTION(eager_region_commit, 4);
CHECK_OPTION(reset_decommits, 5);
CHECK_OPTION(allow_decommit, 5);
CHECK_OPTION(reset_delay, 15);
CHECK_OPTION(decommit_delay, 15);
CHECK_OPTION(limit_os_alloc, 17);
CHECK_OPTION(segment_cache, 10);
CHECK_OPTION(page_reset, 11);
CHECK_OPTION(abandoned_page_reset, 12);
CHECK_OPTION(abandoned_page_decommit, 12);
CHECK_OPTION(segment_reset, 13);
CHECK_OPTION(segment_decommit_delay, 13);
CHECK_OPTION(decommit_extend_delay, 25);

#if MI_API_VERSION >= 3
CHECK(MI_STAT_VERSION == 5);
CHECK_OPTION(deprecated_eager_commit, 3);
CHECK_OPTION(deprecated_abandoned_page_purge, 12);
CHECK_OPTION(deprecated_eager_commit_delay, 14);
CHECK_OPTION(deprecated_max_segment_reclaim, 21);
CHECK_OPTION(deprecated_purge_extend_delay, 25);
CHECK_OPTION(disallow_arena_alloc, 26);
CHECK_OPTION(retry_on_oom, 27);
CHECK_OPTION(visit_abandoned, 28);
CHECK_OPTION(guarded_min, 29);
CHECK_OPTION(guarded_max, 30);
CHECK_OPTION(guarded_precise, 31);
CHECK_OPTION(guarded_sample_rate, 32);
CHECK_OPTION(guarded_sample_seed, 33);
CHECK_OPTION(generic_collect, 34);
CHECK_OPTION(page_reclaim_on_free, 35);
CHECK_OPTION(page_full_retain, 36);
CHECK_OPTION(page_max_candidates, 37);
CHECK_OPTION(max_vabits, 38);
CHECK_OPTION(pagemap_commit, 39);
CHECK_OPTION(page_commit_on_demand, 40);
CHECK_OPTION(page_max_reclaim, 41);
CHECK_OPTION(page_cross_thread_max_reclaim, 42);
CHECK_OPTION(allow_thp, 43);
CHECK_OPTION(minimal_purge_size, 44);
CHECK_OPTION(arena_max_object_size, 45);
CHECK_OPTION(arena_is_numa_local, 46);
CHECK_OPTION(background_purge, 47);
CHECK_OPTION(memory_limit, 48);
CHECK_OPTION(memory_limit_hard, 49);
CHECK_OPTION(cgroup_limit, 50);
CHECK_OPTION(abort_on_error, 51);
CHECK_OPTION(zero_on_free, 52);
CHECK_OPTION(leak_report, 53);
CHECK_OPTION(purge_holes, 54);
CHECK_OPTION(ignore_deepbind, 55);
CHECK_OPTION(show_report, 56);
CHECK_OPTION(report_signal, 57);
CHECK_OPTION(prof, 58);
CHECK_OPTION(prof_rate, 59);
CHECK_OPTION(prof_depth, 60);
CHECK_OPTION(prof_memory, 61);
CHECK_OPTION(prof_at_exit, 62);
CHECK_OPTION(prof_signal, 63);
CHECK_OPTION(prof_interval, 64);
CHECK_OPTION(prof_peak, 65);
CHECK_OPTION(prof_at_limit, 66);
CHECK_OPTION(prof_pins, 67);
CHECK_OPTION(check_every, 68);
CHECK_OPTION(theap_retain, 69);
CHECK((int)_mi_option_last == 70);
CHECK_OPTION(abandoned_reclaim_on_free, 35);
CHECK_OPTION(target_segments_per_thread, 10);
CHECK((int)MI_CBIN_SMALL == 0 && (int)MI_CBIN_OTHER == 1 && (int)MI_CBIN_MEDIUM == 2);
CHECK((int)MI_CBIN_LARGE == 3 && (int)MI_CBIN_HUGE == 4 && (int)MI_CBIN_NONE == 5);
CHECK((int)MI_CBIN_COUNT == 6);
CHECK(sizeof(mi_subproc_id_t) == sizeof(void*));
CHECK(sizeof(mi_arena_id_t) == sizeof(void*));
#else
CHECK(MI_STAT_VERSION == 4);
CHECK_OPTION(abandoned_reclaim_on_free, 26);
CHECK_OPTION(disallow_arena_alloc, 27);
CHECK_OPTION(retry_on_oom, 28);
CHECK_OPTION(visit_abandoned, 29);
CHECK_OPTION(guarded_min, 30);
CHECK_OPTION(guarded_max, 31);
CHECK_OPTION(guarded_precise, 32);
CHECK_OPTION(guarded_sample_rate, 33);
CHECK_OPTION(guarded_sample_seed, 34);
CHECK_OPTION(target_segments_per_thread, 35);
CHECK_OPTION(generic_collect, 36);
CHECK_OPTION(allow_thp, 37);
CHECK((int)_mi_option_last == 38);
CHECK(sizeof(mi_arena_id_t) == sizeof(int));
#endif

// The layouts on systems with 64-bit pointers.
#if defined(__LP64__) || defined(_WIN64)

CHECK(sizeof(mi_heap_area_t) == 56);
CHECK(offsetof(mi_heap_area_t, blocks) == 0);
CHECK(offsetof(mi_heap_area_t, reserved) == 8);
CHECK(offsetof(mi_heap_area_t, committed) == 16);
CHECK(offsetof(mi_heap_area_t, used) == 24);
CHECK(offsetof(mi_heap_area_t, block_size) == 32);
CHECK(offsetof(mi_heap_area_t, full_block_size) == 40);

CHECK(sizeof(mi_stat_count_t) == 24);
CHECK(offsetof(mi_stat_count_t, total) == 0);
CHECK(offsetof(mi_stat_count_t, peak) == 8);
CHECK(offsetof(mi_stat_count_t, current) == 16);
CHECK(sizeof(mi_stat_counter_t) == 8);

#define CHECK_STAT(field, offset) CHECK(offsetof(mi_stats_t, field) == (offset))
CHECK_STAT(size, 0);
CHECK_STAT(version, 8);
CHECK_STAT(pages, 16);
CHECK_STAT(reserved, 40);
CHECK_STAT(committed, 64);
CHECK_STAT(reset, 88);
CHECK_STAT(purged, 96);
CHECK_STAT(page_committed, 104);
CHECK_STAT(pages_abandoned, 128);
CHECK_STAT(threads, 152);
CHECK_STAT(malloc_normal, 176);
CHECK_STAT(malloc_huge, 200);
CHECK_STAT(malloc_requested, 224);
CHECK_STAT(mmap_calls, 248);
CHECK_STAT(commit_calls, 256);
CHECK_STAT(reset_calls, 264);
CHECK_STAT(purge_calls, 272);
CHECK_STAT(arena_count, 280);
CHECK_STAT(malloc_normal_count, 288);
CHECK_STAT(malloc_huge_count, 296);
CHECK_STAT(malloc_guarded_count, 304);
CHECK_STAT(arena_rollback_count, 312);
CHECK_STAT(arena_purges, 320);
CHECK_STAT(pages_extended, 328);
CHECK_STAT(pages_retire, 336);
CHECK_STAT(page_searches, 344);
CHECK_STAT(page_searches_count, 352);
CHECK_STAT(segments, 360);
CHECK_STAT(segments_abandoned, 384);
CHECK_STAT(segments_cache, 408);
CHECK_STAT(_segments_reserved, 432);

#if MI_API_VERSION >= 3
CHECK(offsetof(mi_heap_area_t, reserved1) == 48);
CHECK_STAT(heaps, 456);
CHECK_STAT(theaps, 480);
CHECK_STAT(pages_reclaim_on_alloc, 504);
CHECK_STAT(pages_reclaim_on_free, 512);
CHECK_STAT(pages_reabandon_full, 520);
CHECK_STAT(pages_unabandon_busy_wait, 528);
CHECK_STAT(heaps_delete_wait, 536);
CHECK_STAT(_stat_reserved, 544);
CHECK_STAT(_stat_counter_reserved, 640);
CHECK_STAT(malloc_bins, 672);
CHECK_STAT(page_bins, 2448);
CHECK_STAT(chunk_bins, 4224);
CHECK(sizeof(mi_stats_t) == 4368);
#else
CHECK(offsetof(mi_heap_area_t, heap_tag) == 48);
CHECK_STAT(pages_reclaim_on_alloc, 456);
CHECK_STAT(malloc_bins, 616);
CHECK(sizeof(mi_stats_t) == 4168);
#endif

#endif  // 64-bit pointers

#endif  // CHECKS_H
