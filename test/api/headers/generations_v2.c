// SPDX-License-Identifier: MIT
// The half of the test of generations that is a program for version 2; see generations.c.
#define MI_API_VERSION 2
#include <mimalloc-stats.h>
#include <string.h>

#include "generations.h"

long old_option_get(int number) { return mi_option_get((mi_option_t)number); }
size_t old_option_get_size(int number) { return mi_option_get_size((mi_option_t)number); }
void old_option_set(int number, long value) { mi_option_set((mi_option_t)number, value); }

int old_reserve(size_t size, int* arena_id) {
  return mi_reserve_os_memory_ex(size, false, false, true, arena_id);
}
void* old_arena_area(int arena_id, size_t* size) { return mi_arena_area(arena_id, size); }
void* old_heap_new_in_arena(int arena_id) { return mi_heap_new_in_arena(arena_id); }

void* old_subproc_main(void) { return mi_subproc_main(); }
void* old_subproc_current(void) { return mi_subproc_current(); }

static bool mi_cdecl count(const mi_heap_t* heap, const mi_heap_area_t* area, void* block,
                           size_t block_size, void* arg) {
  if (block != NULL && heap != NULL && block_size <= area->full_block_size) ++*(size_t*)arg;
  return area->heap_tag == 0;
}

bool old_visits_abandoned(void* subproc) {
  size_t blocks = 0;
  return mi_abandoned_visit_blocks(subproc, -1, true, &count, &blocks);
}

size_t old_count_blocks(void* heap) {
  size_t blocks = 0;
  const mi_heap_t* const visited = (const mi_heap_t*)heap;
  return (mi_heap_visit_blocks(visited, true, &count, &blocks) ? blocks : 0);
}

void old_stats(old_numbers_t* numbers) {
  struct {
    mi_stats_t stats;
    unsigned char guard[256];
  } record;
  unsigned char same[sizeof(record.guard)];
  memset(&record, 0xA5, sizeof(record));
  memset(same, 0xA5, sizeof(same));
  mi_stats_init(&record.stats);
  numbers->filled = mi_stats_get(&record.stats);
  numbers->guard_intact = (memcmp(record.guard, same, sizeof(same)) == 0);
  numbers->reserved = record.stats.reserved.current;
  numbers->committed = record.stats.committed.current;
  numbers->arenas = record.stats.arena_count.total;
  numbers->purged = record.stats.purged.total;
  numbers->threads = record.stats.threads.current;
  record.stats.size += sizeof(mi_stat_count_t);
  numbers->wrong_size_refused = !mi_stats_get(&record.stats);
}
