// SPDX-License-Identifier: MIT
// One program of two generations: this file is written for version 3 of the interface, and
// generations_v2.c for version 2. Both must see the same options, arenas, sub-processes, heaps
// and statistics, each under its own numbers and types. Prints what differs; exits with 1 then.
#include "generations.h"

#include <mimalloc-stats.h>
#include <stdio.h>

static int failures;

static void check(bool ok, const char* what, int number) {
  if (ok) return;
  ++failures;
  printf("FAIL %s (%d)\n", what, number);
}

// Every option by its old number; -1 where version 3 has none that does the same.
static const int new_numbers[] = {
  mi_option_show_errors,
  mi_option_show_stats,
  mi_option_verbose,
  mi_option_deprecated_eager_commit,
  mi_option_arena_eager_commit,
  mi_option_purge_decommits,
  mi_option_allow_large_os_pages,
  mi_option_reserve_huge_os_pages,
  mi_option_reserve_huge_os_pages_at,
  mi_option_reserve_os_memory,
  mi_option_deprecated_segment_cache,
  mi_option_deprecated_page_reset,
  mi_option_deprecated_abandoned_page_purge,
  mi_option_deprecated_segment_reset,
  mi_option_deprecated_eager_commit_delay,
  mi_option_purge_delay,
  mi_option_use_numa_nodes,
  mi_option_disallow_os_alloc,
  mi_option_os_tag,
  mi_option_max_errors,
  mi_option_max_warnings,
  mi_option_deprecated_max_segment_reclaim,
  mi_option_destroy_on_exit,
  mi_option_arena_reserve,
  mi_option_arena_purge_mult,
  mi_option_deprecated_purge_extend_delay,
  mi_option_page_reclaim_on_free,
  mi_option_disallow_arena_alloc,
  mi_option_retry_on_oom,
  mi_option_visit_abandoned,
  mi_option_guarded_min,
  mi_option_guarded_max,
  mi_option_guarded_precise,
  mi_option_guarded_sample_rate,
  mi_option_guarded_sample_seed,
  -1,  // target_segments_per_thread
  mi_option_generic_collect,
  mi_option_allow_thp,
};

enum { OLD_OPTIONS = (int)(sizeof(new_numbers) / sizeof(new_numbers[0])) };

static void test_options(void) {
  check(OLD_OPTIONS == 38, "version 2 has 38 options", OLD_OPTIONS);
  for (int old = 0; old < OLD_OPTIONS; old++) {
    if (new_numbers[old] < 0) continue;
    const mi_option_t option = (mi_option_t)new_numbers[old];
    const long before = mi_option_get(option);
    mi_option_set(option, before + 3);
    // A value out of the option's range became the nearest one in it.
    if (mi_option_get(option) == before) mi_option_set(option, before - 1);
    const long after = mi_option_get(option);
    check(after != before, "another value", old);
    check(old_option_get(old) == after, "set by the new number, read by the old", old);
    check(old_option_get_size(old) == mi_option_get_size(option), "size by the old number", old);
    old_option_set(old, before);
    check(mi_option_get(option) == before, "set by the old number, read by the new", old);
  }
}

static void test_no_options(void) {
  static const int none[] = {-1, 35, 38, 47, 55, 63, 64, 1000, 0x3FFF};
  long before[_mi_option_last];
  for (int i = 0; i < (int)_mi_option_last; i++) before[i] = mi_option_get((mi_option_t)i);
  for (size_t n = 0; n < sizeof(none) / sizeof(none[0]); n++) {
    old_option_set(none[n], 12345);
    check(old_option_get(none[n]) == 0, "no option reads as 0", none[n]);
  }
  for (int i = 0; i < (int)_mi_option_last; i++) {
    check(mi_option_get((mi_option_t)i) == before[i], "no option is set by a wrong number", i);
  }
}

static void test_arenas(void) {
  int id = 77;
  check(old_reserve(1, &id) != 0 && id == 0, "a failed reservation gives no id", id);
  const size_t size = 2 * mi_arena_min_size();
  check(old_reserve(size, &id) == 0 && id > 0, "an arena has an id that is positive", id);
  size_t old_size = 0;
  size_t new_size = 0;
  void* const area = old_arena_area(id, &old_size);
  const mi_arena_id_t arena = (mi_arena_id_t)(intptr_t)id;
  check(area != NULL && area == mi_arena_area(arena, &new_size), "one area by both ids", id);
  check(old_size >= size && old_size == new_size, "one size by both ids", id);

  mi_heap_t* const heap = (mi_heap_t*)old_heap_new_in_arena(id);
  check(heap != NULL, "a heap in the arena", id);
  void* const p = mi_heap_malloc(heap, 100);
  check(p != NULL && mi_arena_contains(arena, p), "its blocks lie there", id);
  mi_heap_destroy(heap);
}

static void test_heaps(void) {
  enum { BLOCKS = 10 };
  mi_heap_t* const heap = mi_heap_new();
  for (int i = 0; i < BLOCKS; i++) {
    check(mi_heap_malloc(heap, (size_t)100 << i) != NULL, "a block", i);
  }
  check(old_count_blocks(heap) == BLOCKS, "an old visitor sees all blocks", BLOCKS);
  mi_heap_destroy(heap);
  check(old_subproc_main() == mi_subproc_main().opaque, "one main sub-process", 0);
  mi_option_enable(mi_option_visit_abandoned);
  check(old_visits_abandoned(NULL), "the old name of the main sub-process", 0);
  check(old_subproc_current() == mi_subproc_current().opaque, "one current sub-process", 0);
}

static void test_stats(void) {
  old_numbers_t old;
  mi_stats_t_decl(stats);
  old_stats(&old);
  check(mi_stats_get(&stats), "the new record is filled", MI_STAT_VERSION);
  check(old.filled, "the old record is filled", 4);
  check(old.guard_intact, "nothing is written past the old record", 4);
  check(old.wrong_size_refused, "a wrong size is refused", 4);
  check(old.reserved > 0 && old.reserved == stats.reserved.current, "reserved", 4);
  check(old.committed > 0 && old.committed == stats.committed.current, "committed", 4);
  check(old.arenas > 0 && old.arenas == stats.arena_count.total, "arenas", 4);
  check(old.purged == stats.purged.total, "purged", 4);
  check(old.threads > 0 && old.threads == stats.threads.current, "threads", 4);
}

int main(void) {
  test_options();
  test_no_options();
  test_arenas();
  test_heaps();
  test_stats();
  if (failures == 0) printf("both generations agree\n");
  return (failures == 0 ? 0 : 1);
}
