// SPDX-License-Identifier: MIT
// The scenarios: small programs of 2 or 3 threads over the library's own source.
#include "../../src/alloc/guarded.h"
#include "../../src/heap/common.h"
#include "../../src/heap/transfer.h"
#include "world.h"

static void* block[16];  // of what setup allocated
static int owner[16];    // which thread marked it
static size_t blocks;
static int flag;  // an atomic word, for scenarios where one thread waits for another

static void setup_block(size_t size) {
  block[blocks] = world_alloc(size);
  blocks++;
}

// Thread `t` allocates n blocks; the marks are its own.
static void blocks_of(int t, size_t n, size_t size) {
  ex_become(t);
  for (size_t i = 0; i < n; i++) {
    owner[blocks] = t;
    setup_block(size);
  }
  ex_become(0);
}

static void free_of_setup(size_t i) {
  world_free(block[i], owner[i]);
  block[i] = NULL;
}

static void allocs_and_keeps(size_t i) {
  owner[i] = ex_self();
  block[i] = world_alloc(WORLD_BLOCK);
}

static void audit(void) { world_audit(block, owner, 16); }

static void allocs_and_frees(void) {
  void* p = world_alloc(WORLD_BLOCK);
  world_free(p, ex_self());
}

// ---- the lock ------------------------------------------------------------------------------------

static mx_lock_t lock;
static int guarded;

static void lock_setup(void) {}
static void lock_thread(void) {
  mx_lock_acquire(&lock);
  guarded++;
  mx_lock_release(&lock);
}
static void lock_check(void) { ex_check(guarded == 3); }

// ---- bitmaps -------------------------------------------------------------------------------------

static mx_bits_t bits[2];
static int inside[128];

static void bits_setup(void) { mx_bits_set(bits, 56, 16); }

static void bits_use(size_t first, size_t n) {
  if (!mx_bits_try_claim(bits, first, n)) return;
  for (size_t i = first; i < first + n; i++) inside[i] = ex_self();  // races unless it is ours
  for (size_t i = first; i < first + n; i++) ex_check(inside[i] == ex_self());
  ex_check(mx_bits_set(bits, first, n) == n);
}
static void bits_across(void) { bits_use(62, 4); }
static void bits_low(void) { bits_use(60, 3); }
static void bits_high(void) { bits_use(64, 3); }
static void bits_check(void) { ex_check(mx_bits_count(bits, 0, 128) == 16); }

// ---- remote frees while the owner works ----------------------------------------------------------

static void remote_setup(void) {
  world_start(WORLD_SLICES);
  blocks_of(1, 4, WORLD_BLOCK);
}
static void remote_owner(void) {
  allocs_and_keeps(4);
  free_of_setup(3);
  allocs_and_keeps(5);
}
static void frees_0_1(void) {
  free_of_setup(0);
  free_of_setup(1);
}
static void frees_0(void) { free_of_setup(0); }
static void frees_1(void) { free_of_setup(1); }
static void frees_2(void) { free_of_setup(2); }

// ---- blocks that go on to other threads ------------------------------------------------------------

static void transfer_setup(void) {
  remote_setup();
  mx_transfer_most = 3 * WORLD_BLOCK;
}
static void frees_0_and_allocs(void) {
  free_of_setup(0);
  allocs_and_keeps(4);
}
static void frees_1_2_and_flushes(void) {
  free_of_setup(1);
  free_of_setup(2);
  mx_transfer_flush(true);
}
static void owner_ends(void) {
  free_of_setup(3);
  world_end_thread();
}
static void allocs_5(void) { allocs_and_keeps(5); }

// ---- a full page changes hands -------------------------------------------------------------------

static void full_setup(void) {
  world_start(WORLD_SLICES);
  blocks_of(1, WORLD_PAGE_BLOCKS, WORLD_BLOCK);
}
static void allocs_8(void) { allocs_and_keeps(8); }
static void full_last_two_setup(void) {
  full_setup();
  for (size_t i = 2; i < WORLD_PAGE_BLOCKS; i++) free_of_setup(i);
}
// The page is made full and abandoned in setup: the first thread that frees owns it.
static void full_abandoned_setup(void) {
  world_start(WORLD_SLICES);
  blocks_of(1, WORLD_PAGE_BLOCKS + 1, WORLD_BLOCK);
}

// ---- a thread ends -------------------------------------------------------------------------------

static void end_setup(void) {
  world_start(WORLD_SLICES);
  blocks_of(1, 3, WORLD_BLOCK);
}
static void ends(void) { world_end_thread(); }
static void allocs_9(void) { allocs_and_keeps(9); }
static void allocs_9_ends(void) {
  allocs_and_keeps(9);
  world_end_thread();
}

// ---- an abandoned page is wanted by several ------------------------------------------------------

static void reclaim_setup(void) {
  end_setup();
  ex_become(1);
  world_end_thread();
  ex_become(0);
}
static void allocs_10(void) { allocs_and_keeps(10); }
// A thread that frees takes no page.
static void refused_setup(void) {
  reclaim_setup();
  world_refuse_pages(true);
}

// ---- a page that threads have in common ----------------------------------------------------------

// Block 0 and what each thread asks for first are of one page, which nobody has meanwhile.
static void common_setup(void) {
  world_start(WORLD_SLICES);
  mx_count_add(&mx_subproc_main.main_heap.counters.threads, 100);
  blocks_of(1, 1, WORLD_BLOCK);
  ex_check(mx_load_relaxed(&mx_pagemap_get(block[0])->owner) == 0);
}
// No block of it is free, so that it is in no list.
static void common_full_setup(void) {
  common_setup();
  for (size_t i = 1; i < WORLD_PAGE_BLOCKS; i++) {
    ex_become(1);
    mx_common_begin(mx_tls_theap);
    ex_become(0);
    blocks_of(1, 1, WORLD_BLOCK);
  }
  ex_check(mx_pagemap_get(block[WORLD_PAGE_BLOCKS - 1]) == mx_pagemap_get(block[0]));
}
static void frees_1_allocs_9(void) {
  free_of_setup(1);
  allocs_9();
}

// ---- a bit that is set late, and what has the slice then ----------------------------------------

#define HUGE_SIZE (600 * (size_t)1024)  // 10 slices, so that it needs the abandoned page's slice

static void late_setup(void) {
  world_start(10);
  blocks_of(1, 1, WORLD_BLOCK);
}
static void late_frees_then_huge(void) {
  free_of_setup(0);
  uint64_t* p = (uint64_t*)mx_alloc(HUGE_SIZE);
  if (p == NULL) return;
  p[0] = 7;
  ex_check(mx_usable_size(p) >= HUGE_SIZE);
  mx_free(p);  // an error here is one that it is reported twice
}
static void allocs_if_there_is_room(void) {
  void* p = mx_alloc(WORLD_BLOCK);
  if (p != NULL) mx_free(p);
}

// ---- huge blocks: freed by anybody, once ---------------------------------------------------------

static int refused;

static void count_message(mx_level_t level, int code, const char* format, ...) {
  (void)format;
  if (level == MX_ERROR && code == 11) mx_add_relaxed(&refused, 1);
}
static void twice_setup(void) {
  world_start(16);
  block[0] = mx_alloc(HUGE_SIZE);
  mx_hooks.message = count_message;
}
static void twice_free(void) {
  mx_page_t* page = mx_pagemap_get(block[0]);
  if (!mx_pagemap_is_none(page)) mx_huge_free(page);
  else mx_add_relaxed(&refused, 1);
}
static void huge_loop(void) {
  for (int i = 0; i < 2; i++) {
    uint64_t* p = (uint64_t*)mx_alloc(HUGE_SIZE);
    if (p == NULL) return;
    p[0] = p[1] = (uint64_t)ex_self();
    ex_check(p[0] == (uint64_t)ex_self());
    mx_free(p);
  }
}
static void huge_setup(void) {
  world_start(24);
  block[0] = mx_alloc(HUGE_SIZE);
  mx_free(block[0]);  // is kept
  block[0] = NULL;
}
static void huge_flush(void) { mx_huge_cache_flush(true); }
static void twice_check(void) {
  ex_check(mx_load_relaxed(&refused) == 1);
  mx_huge_cache_flush(true);
  ex_check(mx_load_relaxed(&mx_subproc_main.arenas.in_use) == 0);
}

// ---- slices --------------------------------------------------------------------------------------

static bool take(size_t count, mx_slices_t* out) {
  const mx_slices_request_t request = {count, count, 1, NULL, -1, false, false};
  return mx_slices_alloc(&mx_subproc_main.arenas, &request, out);
}
static void write_all(const mx_slices_t* s) {
  mx_arena_touch(s->arena, s->start, s->count * MX_SLICE_SIZE);
  for (size_t i = 0; i < s->count; i++) {
    uint64_t* words = (uint64_t*)(void*)(s->start + i * MX_SLICE_SIZE);
    if (s->is_zero) ex_check(words[0] == 0 && words[1] == 0);
    words[0] = words[1] = (uint64_t)ex_self();
  }
  for (size_t i = 0; i < s->count; i++) {
    ex_check(*(uint64_t*)(void*)(s->start + i * MX_SLICE_SIZE) == (uint64_t)ex_self());
  }
}
static void use_slices(size_t count) {
  mx_slices_t s;
  if (!take(count, &s)) return;
  write_all(&s);
  mx_slices_free(&mx_subproc_main.arenas, s.arena, s.index, s.count);
}
static mx_slices_t taken;
static void slices_setup(void) {
  world_start(68);
  ex_check(take(61, &taken));  // what is left lies across a word's end
}
static void slices_2(void) { use_slices(2); }
static void slices_4(void) { use_slices(4); }
static void slices_extend(void) {
  mx_slices_t s;
  if (!take(1, &s)) return;
  if (mx_slices_extend(&mx_subproc_main.arenas, s.arena, s.index + 1, 2, false)) {
    s.count = 3;
    s.is_zero = false;
  }
  write_all(&s);
  mx_slices_free(&mx_subproc_main.arenas, s.arena, s.index, s.count);
}
static void slices_check(void) {
  mx_slices_free(&mx_subproc_main.arenas, taken.arena, taken.index, taken.count);
  audit();
}

// What is left is a run across a word's end, of which others want a part.
static void lack_setup(void) {
  world_start(66);
  ex_check(take(62, &taken));
  mx_store_relaxed(&taken.arena->low_hint, (size_t)64);
}
static void lack_4(void) {
  mx_slices_t s;
  take(4, &s);
}
static void lack_1_2(void) {
  mx_slices_t s;
  take(1, &s);
  take(2, &s);
}
static void lack_check(void) {
  mx_slices_t s;
  const mx_bits_t* free = taken.arena->free;
  const bool is_left = (mx_bits_find_run(free, NULL, 66, 2, 0, 1, 0) != SIZE_MAX);
  ex_check(!is_left || (take(2, &s) && s.arena == taken.arena));
}

// Two of eight slices are free that were used; one beside them becomes free, too.
static mx_slices_t eight[8];
static void frees_slice(size_t i) {
  mx_slices_free(&mx_subproc_main.arenas, eight[i].arena, eight[i].index, 1);
}
static void lack_dirty_setup(void) {
  world_start(8);
  for (size_t i = 0; i < 8; i++) {
    ex_check(take(1, &eight[i]));
    write_all(&eight[i]);
  }
  frees_slice(1);
  frees_slice(5);
}
static void lack_2(void) {
  mx_slices_t s;
  take(2, &s);
}
static void frees_beside(void) { frees_slice(2); }
static void lack_dirty_check(void) {
  const mx_arena_t* arena = eight[0].arena;
  if (mx_bits_find_run(arena->free, arena->dirty, 8, 2, 0, 1, 0) == SIZE_MAX) return;
  ex_check(mx_load_relaxed(&arena->lacks) > 2 && mx_load_relaxed(&arena->lacks_dirty) > 2);
  mx_slices_t s;
  ex_check(take(2, &s) && s.arena == arena);
}

// ---- pieces --------------------------------------------------------------------------------------

// An arena of which little is mapped, but for which nothing else lies in its way.
#define PIECES 24
static mx_arena_t* pieces;
static void pieces_setup(void) {
  world_start(1);
  ex_check(take(1, &taken));
  mx_arena_config_t config = mx_arena_config(world_memory + 2 * MX_SLICE_SIZE,
                                             PIECES * MX_SLICE_SIZE);
  config.piece = MX_SLICE_SIZE;
  mx_store_relaxed(&world_mapped, (uint64_t)1 << 2);
  pieces = mx_arena_add(&mx_subproc_main.arenas, &config);
  ex_check(pieces != NULL && take(1, &taken) && taken.arena == pieces);
}
static void pieces_1(void) { use_slices(1); }
static void pieces_unmap(void) { mx_arenas_unmap_free(&mx_subproc_main.arenas); }
static void purge_force(void) { mx_arenas_purge(&mx_subproc_main.arenas, true); }
static void pieces_check(void) {
  ex_check(mx_load_relaxed(&pieces->usable) == PIECES);
  const uint64_t mapped = mx_load_relaxed(&world_mapped) >> 2;
  for (size_t i = 0; i < PIECES; i++) {
    ex_check(mx_bits_test(pieces->committed, i) == ((mapped >> i & 1) != 0));
  }
  ex_check(mx_bits_count(pieces->free, 0, PIECES) == PIECES - 1);
  ex_check(mx_load_relaxed(&pieces->free_slices) == PIECES - 1);
  ex_check(mx_bits_count(pieces->purgeable, 0, PIECES) ==
           (size_t)mx_load_relaxed(&pieces->purgeable_count));
}

// One of its slices is free, and was never used, but is there.
static void pieces_fresh_setup(void) {
  mx_slices_t s;
  pieces_setup();
  ex_check(take(1, &s) && s.arena == pieces);
  mx_slices_free(&mx_subproc_main.arenas, pieces, s.index, 1);
  mx_arena_touch(pieces, s.start, MX_SLICE_SIZE);
}

// ---- purging -------------------------------------------------------------------------------------

static void purge_setup(void) {
  world_start(4);
  ex_check(take(2, &taken));
  write_all(&taken);
}
static void purge_free(void) {
  mx_slices_free(&mx_subproc_main.arenas, taken.arena, taken.index, taken.count);
}
// Slices that wait are sure to be purged some time: a purge is scheduled.
static void purge_check(void) {
  mx_arenas_t* arenas = &mx_subproc_main.arenas;
  if (mx_load_relaxed(&arenas->purgeable) > 0) ex_check(mx_load_relaxed(&arenas->purge_at) != 0);
  audit();
}
static void purge_schedule_setup(void) {
  purge_setup();
  purge_free();
}

// ---- threads that start and end ------------------------------------------------------------------

static void records_setup(void) {
  world_start(WORLD_SLICES);
  blocks_of(1, 1, WORLD_BLOCK);
  blocks_of(2, 1, WORLD_BLOCK);
}
static void ends_and_starts(void) {
  world_end_thread();
  allocs_and_frees();
}
static void starts(void) { allocs_and_frees(); }

// Thread 2 begins when thread 1 has ended, and has its identity, as threads of a pool of stacks do.
static void identity_setup(void) {
  end_setup();
  ex_set_identity(2, (uintptr_t)2 << 12);
}
static void identity_first(void) {
  world_end_thread();
  mx_store_release(&flag, 1);
}
static void identity_second(void) {
  while (mx_load_acquire(&flag) == 0) mx_spin_hint();
  mx_free(block[0]);
  block[0] = NULL;
  void* p = mx_alloc(WORLD_BLOCK);
  ex_check(p != NULL);
  mx_free(p);
}

// ---- parked theaps -------------------------------------------------------------------------------

static void park_setup(void) {
  end_setup();
  world_park(2);
}
static void parked_setup(void) {
  park_setup();
  ex_become(1);
  world_end_thread();
  ex_become(0);
}
static void parked_identity_setup(void) {
  identity_setup();
  world_park(2);
}
static void starts_and_ends(void) {
  allocs_and_frees();
  world_end_thread();
}
static void gives_up(void) { mx_parked_give_up(&mx_subproc_main, true); }
static void frees_1_gives_up(void) {
  free_of_setup(1);
  gives_up();
}

// ---- arenas --------------------------------------------------------------------------------------

static uint8_t more_memory[2][2 * MX_SLICE_SIZE] __attribute__((aligned(65536)));
static mx_arena_t* added[2];

static void arena_setup(void) {
  world_start(1);
  ex_check(take(1, &taken));
  world_may_map = true;
}
static void arena_add(int i) {
  const mx_arena_config_t config = {more_memory[i], sizeof(more_memory[i]), true, false, true,
                                    false, false, -1, NULL, NULL, false};
  added[i] = mx_arena_add(&mx_subproc_main.arenas, &config);
}
static void arena_add_0(void) { arena_add(0); }
static void arena_add_1(void) { arena_add(1); }
static void arena_use(void) { use_slices(2); }
static void arena_check(void) {
  ex_check(added[0] != NULL && added[1] != NULL);
  ex_check(mx_load_relaxed(&mx_subproc_main.arenas.count) >= 3);
  for (int i = 0; i < 2; i++) {
    ex_check(added[i]->start == more_memory[i]);
    ex_check(mx_arena_at(&mx_subproc_main.arenas, mx_load_relaxed(&added[i]->item)) == added[i]);
  }
}

// ---- guarded blocks ------------------------------------------------------------------------------

static mx_guarded_t* record;  // the one after the first block's

static void guarded_setup(void) {
  world_start(WORLD_SLICES);
  ex_check(mx_guarded_alloc(100) != NULL);
  record = &mx_guarded_records[1];
  ex_quiet(record + 1, (MX_GUARDED_RECORDS - 2) * sizeof(mx_guarded_t));
  world_may_map = true;
}
static void guarded_alloc(void) { block[0] = mx_guarded_alloc(100); }
// Whoever finds a live block's page finds all of it.
static void guarded_visit(void) {
  size_t index = 1;
  const mx_page_t* const page = mx_guarded_next(&index);
  if (page == NULL) return;
  const mx_guarded_t* const g = (const mx_guarded_t*)page->guarded;
  ex_check(g == record && page->start == g->block && g->size == 100);
  ex_check(page->block_size == 100 && page->capacity == 1);
}
static void guarded_check(void) {
  size_t index = 1;
  const mx_page_t* const page = mx_guarded_next(&index);
  ex_check(page != NULL && page->start == block[0]);
}

const ex_scenario_t ex_scenarios[] = {
    {"lock", lock_setup, {lock_thread, lock_thread, lock_thread}, lock_check, 3, 2},
    {"bits", bits_setup, {bits_across, bits_low, bits_high}, bits_check, 3, 2},
    {"slices", slices_setup, {slices_2, slices_4, NULL}, slices_check, 2, 1},
    {"slices-lack", lack_setup, {lack_4, lack_1_2, NULL}, lack_check, 2, 1},
    {"slices-lack-dirty", lack_dirty_setup, {lack_2, frees_beside, NULL}, lack_dirty_check, 2, 1},
    {"pieces", pieces_setup, {pieces_1, pieces_1, NULL}, pieces_check, 2, 1},
    {"pieces-unmap", pieces_setup, {pieces_1, pieces_unmap, pieces_1}, pieces_check, 2, 1},
    {"pieces-fresh", pieces_fresh_setup, {purge_force, pieces_unmap, pieces_1}, pieces_check, 2, 1},
    {"pieces-unmap-2", pieces_fresh_setup, {pieces_unmap, pieces_unmap, NULL}, pieces_check, 2, 1},
    {"slices-extend", slices_setup, {slices_extend, slices_2, NULL}, slices_check, 2, 1},
    {"purge", purge_setup, {purge_free, purge_force, NULL}, purge_check, 3, 3},
    {"purge-schedule", purge_schedule_setup, {purge_force, slices_4, NULL}, purge_check, 3, 1},
    {"remote-free", remote_setup, {remote_owner, frees_0_1, frees_2}, audit, 2, 1},
    {"transfer", transfer_setup, {frees_1_2_and_flushes, allocs_5, frees_0_and_allocs}, audit, 2, 1},
    {"transfer-end", transfer_setup, {frees_0_and_allocs, owner_ends, frees_1_2_and_flushes}, audit, 2, 1},
    {"full", full_setup, {allocs_8, frees_0, frees_1}, audit, 2, 1},
    {"full-abandoned", full_abandoned_setup, {NULL, frees_0_1, frees_2}, audit, 2, 1},
    {"last-blocks", full_last_two_setup, {ends, frees_0, frees_1}, audit, 2, 1},
    {"thread-end", end_setup, {ends, frees_0, allocs_9}, audit, 2, 1},
    {"reclaim", reclaim_setup, {frees_0, allocs_9_ends, allocs_10}, audit, 2, 1},
    {"reclaim-refused", refused_setup, {frees_0, allocs_9_ends, frees_1}, audit, 2, 1},
    {"common", common_setup, {frees_0, allocs_9_ends, allocs_10}, audit, 2, 1},
    {"common-full", common_full_setup, {frees_0, frees_1_allocs_9, allocs_10}, audit, 2, 1},
    {"late-bit", late_setup, {ends, late_frees_then_huge, allocs_if_there_is_room}, audit, 2, 1},
    {"huge-twice", twice_setup, {NULL, twice_free, twice_free}, twice_check, 3, 2},
    {"huge-kept", huge_setup, {huge_loop, huge_loop, huge_flush}, audit, 2, 1},
    {"thread-records", records_setup, {ends_and_starts, ends, starts}, audit, 2, 1},
    {"same-identity", identity_setup, {identity_first, identity_second, frees_1}, audit, 2, 1},
    {"park", park_setup, {ends, frees_0, starts_and_ends}, audit, 2, 1},
    {"parked-taken", parked_setup, {frees_0, allocs_9_ends, allocs_10}, audit, 2, 1},
    {"parked-given-up", parked_setup, {frees_0, allocs_9, frees_1_gives_up}, audit, 2, 1},
    {"parked-identity", parked_identity_setup, {identity_first, identity_second, gives_up}, audit, 2, 1},
    {"arena-add", arena_setup, {arena_add_0, arena_add_1, arena_use}, arena_check, 2, 1},
    {"guarded", guarded_setup, {guarded_alloc, guarded_visit, NULL}, guarded_check, 2, 1},
    {NULL, NULL, {NULL, NULL, NULL}, NULL, 0, 0},
};
