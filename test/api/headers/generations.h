// SPDX-License-Identifier: MIT
// What the two halves of the test of generations know of each other: the half that is compiled
// with MI_API_VERSION 2 offers these to the half that is compiled with 3. Only types that both
// have alike may stand here.
#ifndef GENERATIONS_H
#define GENERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Options by their old numbers.
long old_option_get(int number);
size_t old_option_get_size(int number);
void old_option_set(int number, long value);

// Arenas by `int` ids.
int old_reserve(size_t size, int* arena_id);
void* old_arena_area(int arena_id, size_t* size);
void* old_heap_new_in_arena(int arena_id);

// Sub-processes by `void*` ids.
void* old_subproc_main(void);
bool old_visits_abandoned(void* subproc);
void* old_subproc_current(void);

// How many live blocks a visitor of the old kind sees in a heap.
size_t old_count_blocks(void* heap);

// What the old statistics record tells.
typedef struct old_numbers_s {
  int64_t reserved, committed, arenas, purged, threads;
  bool filled, guard_intact, wrong_size_refused;
} old_numbers_t;
void old_stats(old_numbers_t* numbers);

#endif
