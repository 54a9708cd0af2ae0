// SPDX-License-Identifier: MIT
// Where runs of slices come from: the arena of the node that is asked for, or one of any node; and a
// place of its own for a block that will grow, of which nothing is left behind when it goes; and used
// memory for a page, wherever enough of it lies in a row. And where OS pages that wait may move to, where
// a page ends while used memory waits, and what rounds of tables need.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../../src/base/options.h"
#include "../../src/heap/subproc.h"
#include "../../src/mem/pagemap.h"
#include "../../src/mem/vmem.h"
#include "../../src/os/os.h"
#include "../page_of.h"

#define GROWING_PLACE ((size_t)512)

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static mx_arenas_t* arenas(void) { return &mx_subproc_main.arenas; }

static bool take(size_t count, int node, bool grows, mx_slices_t* got) {
  const mx_slices_request_t request = {count, count, 1, NULL, node, grows, false};
  return mx_slices_alloc(arenas(), &request, got);
}

static void touch(const mx_slices_t* slices) {
  memset(slices->start, 1, slices->count * MX_SLICE_SIZE);
  mx_arena_touch(slices->arena, slices->start, slices->count * MX_SLICE_SIZE);
}

static void give_back(const mx_slices_t* got) {
  mx_slices_free(arenas(), got->arena, got->index, got->count);
}

static void test_growing(void) {
  mx_slices_t first, second;
  if (!take(64, -1, true, &first)) return;
  mx_arena_t* const arena = first.arena;
  const intptr_t in_use = mx_load_relaxed(&arenas()->in_use);
  const size_t free_slices = mx_load_relaxed(&arena->free_slices);
  EXPECT(take(64, -1, true, &second));
  EXPECT(second.arena == arena && first.index != second.index);
  // Each begins where there is room, and in the last eighth, away from others; a small arena has none.
  if (arena->slices / 8 >= 3 * GROWING_PLACE) {
    EXPECT((uintptr_t)first.start / MX_SLICE_SIZE % GROWING_PLACE == 0);
    EXPECT((uintptr_t)second.start / MX_SLICE_SIZE % GROWING_PLACE == 0);
    EXPECT(first.index >= arena->slices / 8 * 7 && second.index >= arena->slices / 8 * 7);
  }
  EXPECT(mx_load_relaxed(&arena->free_slices) == free_slices - 64);
  give_back(&second);
  EXPECT(mx_load_relaxed(&arena->free_slices) == free_slices);
  EXPECT(mx_load_relaxed(&arenas()->in_use) == in_use);
  give_back(&first);
}

// A request for node 1, where there is an arena of node 0 in front of one of any node.
static void test_nodes(void) {
  mx_slices_t got;
  mi_arena_id_t id;
  if (mi_reserve_os_memory_ex(64 * 1024 * 1024, true, false, false, &id) != 0) return;
  const size_t count = mx_load_relaxed(&arenas()->count);
  EXPECT(count >= 2);
  for (size_t i = 0; i + 1 < count; i++) mx_arena_at(arenas(), i)->numa_node = 0;
  mx_arena_t* const any = mx_arena_at(arenas(), count - 1);
  any->numa_node = -1;
  mi_option_enable(mi_option_disallow_os_alloc);  // none is made for the node
  EXPECT(take(2, 1, false, &got) && got.arena == any);
  give_back(&got);
  EXPECT(take(2, 0, false, &got) && got.arena->numa_node <= 0);
  give_back(&got);
}

#define RUNS ((size_t)7)
#define RUN ((size_t)12)
#define BLOCK ((size_t)40 * 1024)

// Blocks get most of the memory that waits in short runs.
static void test_pages_in_used_runs(void) {
  mi_option_set(mi_option_purge_delay, 100000);
  mx_slices_t few, runs[RUNS], stops[RUNS];
  if (!take(5, -1, false, &few)) return;
  static unsigned char* blocks[(RUNS * RUN + 3 * MX_LARGE_PAGE_SLICES) * MX_SLICE_SIZE / BLOCK];
  const size_t count = sizeof(blocks) / sizeof(blocks[0]);
  for (size_t i = 0; i < RUNS; i++) {
    if (!take(RUN, -1, false, &runs[i]) || !take(2, -1, false, &stops[i])) return;
    touch(&runs[i]);
  }
  mx_arena_t* const arena = runs[0].arena;
  for (size_t i = 0; i < RUNS; i++) give_back(&runs[i]);
  const size_t before = mx_bits_count(arena->dirty, 0, arena->slices);
  for (size_t i = 0; i < count; i++) {
    blocks[i] = (unsigned char*)mi_malloc(BLOCK);
    memset(blocks[i], 2, BLOCK);
  }
  size_t inside = 0;
  for (size_t i = 0; i < count; i++) {
    for (size_t r = 0; r < RUNS; r++) {
      inside += (blocks[i] >= runs[r].start && blocks[i] < runs[r].start + RUN * MX_SLICE_SIZE);
    }
  }
  printf("%zu of %zu blocks in used runs, %zu slices used before\n", inside, count, before);
  EXPECT(inside >= RUNS * RUN * MX_SLICE_SIZE / BLOCK * 3 / 4);
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  for (size_t i = 0; i < RUNS; i++) give_back(&stops[i]);
  give_back(&few);
}

// A page that would take fresh slices behind it ends where as many used ones wait, if both they and
// what it has hold something.
static void test_page_ends(long delay) {
  mi_option_set(mi_option_purge_delay, 100000);
  mx_arenas_purge(arenas(), true);
  mi_option_set(mi_option_purge_delay, delay);
  mx_slices_t waits, own;
  if (!take(4, -1, false, &waits)) return;
  mx_arena_t* const arena = waits.arena;
  const size_t at = arena->slices / 8 * 5, next = at + 2;  // where nobody was
  if (!mx_arena_claim(arena, at, 2)) return;  // a small arena has no such place
  EXPECT(mx_slices_hand_out(arenas(), arena, at, 2, &own) == MX_COMMIT_DONE);
  touch(&own);
  touch(&waits);
  EXPECT(!mx_slices_wait_elsewhere(arena, next, 2, 2));
  give_back(&waits);
  EXPECT(mx_slices_wait_elsewhere(arena, next, 2, 2));
  EXPECT(mx_slices_wait_elsewhere(arena, next, 1, 4));
  // What waits nowhere, as in memory that the program brought, no page would look for.
  const intptr_t noted = mx_load_relaxed(&arena->purgeable_count);
  mx_store_relaxed(&arena->purgeable_count, (intptr_t)0);
  EXPECT(!mx_slices_wait_elsewhere(arena, next, 2, 2));
  mx_store_relaxed(&arena->purgeable_count, noted);
  EXPECT(!mx_slices_wait_elsewhere(arena, next, 2, 5));  // only four lie in a row
  mx_arena_touch(arena, mx_arena_slice(arena, next), 2 * MX_SLICE_SIZE);
  EXPECT(!mx_slices_wait_elsewhere(arena, next, 2, 2));
  mx_arena_untouch(arena, mx_arena_slice(arena, next), 2 * MX_SLICE_SIZE);
  mx_arena_untouch(arena, own.start, 2 * MX_SLICE_SIZE);
  EXPECT(!mx_slices_wait_elsewhere(arena, next, 2, 2));
  touch(&own);
  mx_arena_untouch(arena, waits.start, 4 * MX_SLICE_SIZE);
  EXPECT(!mx_slices_wait_elsewhere(arena, next, 2, 2));
  mx_arena_touch(arena, waits.start, 4 * MX_SLICE_SIZE);
  EXPECT(mx_slices_wait_elsewhere(arena, next, 2, 2));
  EXPECT(!mx_slices_wait_elsewhere(arena, mx_load_relaxed(&arena->usable) - 1, 2, 2));
  give_back(&own);
}

#define WIDE ((size_t)160 * 1024)  // a page of these begins with three slices and takes two more
#define WIDES 20

// How many pages so many blocks have, while so many used slices wait between live ones.
static size_t pages_beside(size_t waiting) {
  mi_option_set(mi_option_purge_delay, 100000);
  mi_collect(true);
  mx_slices_t live;
  if (!take(waiting + 4, -1, false, &live)) return 0;
  touch(&live);
  mx_slices_free(arenas(), live.arena, live.index + 2, waiting);
  unsigned char* blocks[WIDES];
  size_t pages = 0;
  bool is_inside = false;
  for (int i = 0; i < WIDES; i++) {
    blocks[i] = (unsigned char*)mi_malloc(WIDE);
    memset(blocks[i], 1, WIDE);
    const unsigned char* const end = live.start + (waiting + 4) * MX_SLICE_SIZE;
    is_inside = is_inside || (blocks[i] > live.start && blocks[i] < end);
    pages += (i == 0 || page_of(blocks[i]) != page_of(blocks[i - 1]));
  }
  // Where purging leaves memory dirty, other runs may serve as well.
  EXPECT(!is_inside || waiting >= 3);
  for (int i = 0; i < WIDES; i++) mi_free(blocks[i]);
  mx_slices_free(arenas(), live.arena, live.index, 2);
  mx_slices_free(arenas(), live.arena, live.index + 2 + waiting, 2);
  return pages;
}

// A page does not end for a run that the next page would not take.
static void test_wide(void) {
  const size_t few = pages_beside(2), enough = pages_beside(3);
  printf("%zu blocks: %zu pages beside 2 slices, %zu beside 3\n", (size_t)WIDES, few, enough);
  EXPECT(few <= 2 && enough <= 3);
}

#define TABLES 10
#define ROUNDS 20

// Tables that double: how many OS pages hold something afterwards.
static size_t double_tables(mx_arena_t* arena) {
  unsigned char* tables[TABLES] = {0};
  for (size_t size = 1024; size <= MX_MIB; size *= 2) {
    for (int i = 0; i < TABLES; i++) {
      unsigned char* const table = (unsigned char*)mi_calloc(size, 1);
      memset(table, 1, size);
      mi_free(tables[i]);
      tables[i] = table;
    }
  }
  for (int i = 0; i < TABLES; i++) mi_free(tables[i]);
  return mx_arena_present_in(arena, 0, arena->slices);
}

// They need not much more than what is in use, however often they come.
static void test_rounds(void) {
  mi_option_set(mi_option_purge_delay, 100000);
  mx_arenas_purge(arenas(), true);
  mi_option_set(mi_option_purge_delay, -1);
  mx_slices_t any;
  if (!take(1, -1, false, &any)) return;
  const size_t first = double_tables(any.arena);
  size_t last = first;
  for (int i = 1; i < ROUNDS; i++) last = double_tables(any.arena);
  printf("%zu OS pages for a round of tables, %zu for %d\n", first, last, ROUNDS);
  EXPECT(last * mx_facts.os_page <= 2 * TABLES * MX_MIB);
  give_back(&any);
}

#define MOVED ((size_t)64)
#define CHUNK ((size_t)16)  // slices that move at once, aligned in addresses

// How many slices lie in chunks that are one mapping: what was mapped in steps and used in between
// may stay several, wherever addresses put the steps.
static size_t movable(const mx_slices_t* slices) {
  const size_t size = CHUNK * MX_SLICE_SIZE;
  size_t count = 0;
  unsigned char* const end = slices->start + slices->count * MX_SLICE_SIZE;
  unsigned char* p = (unsigned char*)mx_align_up((uintptr_t)slices->start, size);
  for (; p + size <= end; p += size) count += (mx_os_movable(p, size) == size ? CHUNK : 0);
  return count;
}

// OS pages that wait in an arena of the library's own move to fresh slices of another one, but not to
// memory that was brought whole: its mapping must stay as it is.
static void test_moving(void) {
  mi_option_set(mi_option_purge_delay, 100000);
  mx_arenas_purge(arenas(), true);  // wherever the fresh run begins, nothing is there
  mx_slices_t waits, fresh, given;
  mi_arena_id_t id;
  if (!take(MOVED, -1, false, &waits) || !take(2 * MOVED, -1, false, &fresh)) return;
  if (mi_reserve_os_memory_ex(64 * 1024 * 1024, true, false, false, &id) != 0) return;
  mx_arena_t* const whole = mx_arena_at(arenas(), mx_load_relaxed(&arenas()->count) - 1);
  EXPECT(whole->is_reserved && (!MX_PIECEWISE || !waits.arena->is_reserved));
  const mx_arena_t* const a = fresh.arena;
  const size_t per = mx_arena_bits_per_slice();
  EXPECT(mx_bits_count(a->present, fresh.index * per, fresh.count * per) == 0);
  const mx_slices_request_t request = {2 * MOVED, 2 * MOVED, 1, whole, -1, false, false};
  EXPECT(mx_slices_alloc(arenas(), &request, &given) && given.arena == whole);
  touch(&waits);
  give_back(&waits);
  const intptr_t purgeable = mx_load_relaxed(&arenas()->purgeable);
  EXPECT(purgeable >= (intptr_t)MOVED);
  EXPECT(mx_slices_move_in(arenas(), whole, given.index, given.count));
  EXPECT(mx_load_relaxed(&arenas()->purgeable) == purgeable);
  const size_t can_move = movable(&waits);
  EXPECT(mx_slices_move_in(arenas(), fresh.arena, fresh.index, fresh.count));
  const bool moves = MX_PIECEWISE && mx_os_overcommits() && mx_option(allow_thp) < 2;
  EXPECT(!moves || mx_load_relaxed(&arenas()->purgeable) < purgeable);
  size_t ones = 0;
  for (size_t i = 0; i < fresh.count; i++) ones += (fresh.start[i * MX_SLICE_SIZE] == 1);
  EXPECT(!moves || ones >= mx_min(can_move, MOVED / 2));
  give_back(&fresh);
  give_back(&given);
}

// What is hardly present stays where it is: to move it takes longer than the faults that it spares.
static void test_sparse(void) {
  mi_option_set(mi_option_purge_delay, 100000);
  mx_arenas_purge(arenas(), true);
  mx_slices_t waits, fresh;
  if (!take(MOVED, -1, false, &waits) || !take(2 * MOVED, -1, false, &fresh)) return;
  for (size_t i = 0; i < MOVED; i++) waits.start[i * MX_SLICE_SIZE] = 1;
  mx_arena_touch(waits.arena, waits.start, MOVED * MX_SLICE_SIZE);
  const bool is_sparse = mx_os_is_sparse(waits.start, MOVED * MX_SLICE_SIZE, 1);
  give_back(&waits);
  const intptr_t purgeable = mx_load_relaxed(&arenas()->purgeable);
  EXPECT(purgeable >= (intptr_t)MOVED);
  EXPECT(mx_slices_move_in(arenas(), fresh.arena, fresh.index, fresh.count));
  EXPECT(!is_sparse || mx_load_relaxed(&arenas()->purgeable) == purgeable);
  give_back(&fresh);
}

// Slices of which nothing was used are not accessible any more where only what is in use is; the next
// use makes them so.
static void test_unused(void) {
  mx_slices_t got, again;
  if (!take(8, -1, false, &got)) return;
  mx_arena_t* const arena = got.arena;
  const bool is_fresh = (mx_bits_count(arena->dirty, got.index, 8) == 0);
  give_back(&got);
  const bool is_unmapped = MX_SCATTER && is_fresh && !arena->is_reserved;
  EXPECT(!is_unmapped || mx_bits_count(arena->committed, got.index, 8) == 0);
  EXPECT(mx_arena_claim(arena, got.index, 8));
  EXPECT(mx_slices_hand_out(arenas(), arena, got.index, 8, &again) == MX_COMMIT_DONE);
  EXPECT(again.start == got.start && again.count == 8);
  memset(again.start, 7, 8 * MX_SLICE_SIZE);
  mx_arena_touch(arena, again.start, 8 * MX_SLICE_SIZE);
  give_back(&again);
  EXPECT(mx_bits_count(arena->dirty, got.index, 8) == 8);
}

// Fresh slices lie apart from each other where pages are scattered, else side by side.
static void test_apart(void) {
  enum { SINGLES = 32 };
  mx_slices_t got[SINGLES];
  int beside = 0;
  mi_collect(true);
  for (int i = 0; i < SINGLES; i++) EXPECT(take(1, -1, false, &got[i]));
  for (int i = 0; i < SINGLES; i++) {
    for (int k = 0; k < SINGLES; k++) beside += (got[i].start + MX_SLICE_SIZE == got[k].start);
  }
  EXPECT(MX_SCATTER ? beside < SINGLES / 4 : beside > SINGLES / 4);
  for (int i = 0; i < SINGLES; i++) give_back(&got[i]);
}

// Whatever alignment is wanted, slices begin where slices can.
static void test_places(void) {
  static const mx_zone_t zones[] = {MX_ZONE_NEAR, MX_ZONE_FAR};
  for (size_t z = 0; z < 2; z++) {
    for (size_t align = 1; align <= ((size_t)1 << 22); align *= 4) {
      const uintptr_t at = (uintptr_t)mx_vmem_place(zones[z], 3 * MX_SLICE_SIZE, align);
      EXPECT(at % MX_SLICE_SIZE == 0 && at % align == 0);
    }
  }
}

int main(void) {
  mi_option_set(mi_option_purge_delay, -1);
  mi_free(mi_malloc(1));
  test_places();
  test_unused();
  test_apart();
  if (!MX_SCATTER && !MX_PADDING) test_wide();
  mi_option_set(mi_option_purge_delay, -1);
  if (!MX_SCATTER) test_growing();
  if (!MX_SCATTER) test_pages_in_used_runs();
  if (!MX_SCATTER) test_sparse();
  if (!MX_SCATTER) test_moving();
  if (!MX_SCATTER) test_page_ends(100000);
  if (!MX_SCATTER) test_page_ends(-1);
  if (!MX_SCATTER) test_rounds();
  test_nodes();
  printf("runs: %d failures\n", failures);
  return failures != 0;
}
