// SPDX-License-Identifier: MIT
// A place in the list of arenas that is empty, as it may be for a moment while another thread's
// sub-process goes: whatever walks over arenas passes it by, and finds what lies behind it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../include/mimalloc-stats.h"
#include "../../include/mimalloc.h"
#include "../../src/arena/arena.h"
#include "../../src/heap/trim.h"
#include "../../src/heap/subproc.h"
#include "../../src/heap/trim.h"
#include "../../src/mem/vmem.h"
#include "../../src/os/tags.h"

#define MIB ((size_t)1024 * 1024)

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static size_t blocks, length;

static bool visit(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                  void* arg) {
  (void)heap;
  (void)area;
  (void)size;
  blocks += (block == arg);
  return true;
}

static void keep(const char* text, void* arg) {
  (void)arg;
  length += strlen(text);
}

int main(void) {
  mi_option_set(mi_option_show_errors, 1);
  mx_arenas_t* const arenas = &mx_subproc_main.arenas;
  mi_arena_id_t lost, behind;
  mi_free(mi_malloc(1));
  if (mi_reserve_os_memory_ex(64 * MIB, false, false, true, &lost) != 0) return 1;
  if (mi_reserve_os_memory_ex(64 * MIB, false, false, true, &behind) != 0) return 1;
  const size_t last = mx_load_relaxed(&arenas->count) - 1;
  mi_heap_t* const heap = mi_heap_new_in_arena(behind);
  void* const p = mi_heap_malloc(heap, 1000);
  void* const huge = mi_heap_malloc(heap, 5 * MIB);
  EXPECT(mi_arena_contains(behind, p) && mi_arena_contains(behind, huge));
  mx_arena_t* const arena = mx_arena_at(arenas, last - 1);
  mx_store_release(&arenas->items[last - 1], (mx_arena_t*)NULL);

  EXPECT(mi_arena_area(lost, NULL) == NULL && mi_arena_area(behind, NULL) != NULL);
  EXPECT(mx_arena_of(arenas, mx_tag_strip(p)) == mx_arena_at(arenas, last));
  EXPECT(mi_heap_visit_blocks(heap, true, &visit, p) && blocks == 1);
  EXPECT(mi_heap_visit_blocks(heap, true, &visit, huge) && blocks == 2);
  EXPECT(mi_heap_visit_abandoned_blocks(heap, true, &visit, p) && blocks == 2);  // it has an owner
  static const mi_report_format_t formats[] = {MI_REPORT_TEXT, MI_REPORT_JSON, MI_REPORT_METRICS};
  for (int i = 0; i < 3; i++) {
    length = 0;
    EXPECT(mi_report(formats[i], &keep, NULL) && length > 500);
  }
  length = 0;
  mi_stats_print_out(&keep, NULL);
  EXPECT(length > 500);
  length = 0;
  mi_register_output(&keep, NULL);
  mi_arenas_print();
  mi_register_output(NULL, NULL);
  EXPECT(length > 100);
  mi_stats_t stats;
  memset(&stats, 0, sizeof(stats));
  stats.size = sizeof(stats);
  stats.version = MI_STAT_VERSION;
  EXPECT(mi_heap_stats_get(heap, &stats));
  mi_free(huge);
  mi_option_set(mi_option_purge_delay, 0);
  mi_heap_collect(heap, true);
  mi_collect(true);
  bool has_changed = false;
  mx_subproc_make_holes(&mx_subproc_main, true, &has_changed);
  // A walk in steps, which begins when much is committed, gets to its end.
  const int64_t much = (int64_t)(256 * MIB);
  mx_count_add(&mx_process_counters.committed, much);
  for (int i = 0; i < 100; i++) mx_subproc_trim(&mx_subproc_main);
  EXPECT(mx_subproc_main.trim.arena == 0);
  mx_count_add(&mx_process_counters.committed, -much);
  mx_arenas_unmap_free(arenas);
  // A thread looks for what another left, and for memory of its own.
  void* const more = mi_malloc(3 * MIB);
  EXPECT(more != NULL);
  mi_free(more);
  mi_free(p);
  mi_heap_destroy(heap);

  mx_store_release(&arenas->items[last - 1], arena);
  EXPECT(mi_arena_area(lost, NULL) != NULL);
  printf("gaps: %d failures\n", failures);
  return failures != 0;
}
