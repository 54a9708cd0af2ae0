// SPDX-License-Identifier: MIT
// Arenas of a list of their own, of which nobody else takes slices: what becomes of memory that is
// brought, how large reserved ones are, how many there may be, what of their records is mapped, commit
// functions that refuse or do not clear, what a memory limit asks for, and what is left when all of them go.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "../../include/mimalloc.h"
#include "../../src/arena/plots.h"
#include "../../src/base/options.h"
#include "../../src/heap/subproc.h"
#include "../../src/mem/vmem.h"
#include "../../src/os/os.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static mx_arenas_t mine, others;

static int64_t reserved(void) { return mx_load_relaxed(&mx_process_counters.reserved.current); }
static int64_t committed(void) { return mx_load_relaxed(&mx_process_counters.committed.current); }

static uint8_t* memory(size_t slices) {
  uint8_t* const p = (uint8_t*)mmap(NULL, (slices + 1) * MX_SLICE_SIZE, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return (uint8_t*)mx_align_up((uintptr_t)p, MX_SLICE_SIZE);
}

// Of the program's own memory, which stays its own.
static mx_arena_t* bring(mx_arenas_t* arenas, size_t slices) {
  mx_arena_config_t config = mx_arena_config(memory(slices), slices * MX_SLICE_SIZE);
  config.is_committed = true;
  config.is_owned = false;
  return mx_arena_add(arenas, &config);
}

static bool take_of(mx_arena_t* arena, size_t count, size_t align, mx_slices_t* got) {
  const mx_slices_request_t request = {count, count, align, arena, -1, false, false};
  return mx_slices_alloc(&mine, &request, got);
}

static bool take(size_t count, mx_slices_t* got) { return take_of(NULL, count, 1, got); }

static void give_back(const mx_slices_t* got) {
  mx_slices_free(&mine, got->arena, got->index, got->count);
}

static size_t at_all(void) { return mx_load_relaxed(&mine.count); }

// ---- making ------------------------------------------------------------------------------------

static void test_odd_memory(void) {
  uint8_t* const start = memory(4);
  mx_arena_config_t config = mx_arena_config(start + 100, 4 * MX_SLICE_SIZE - 100);
  config.is_owned = false;
  mx_arena_t* const arena = mx_arena_add(&mine, &config);
  EXPECT(arena != NULL && arena->start == start + MX_SLICE_SIZE && arena->slices == 3);
  const int64_t before = reserved();
  config.size = 2 * MX_SLICE_SIZE - 101;  // a byte too few behind what is lost
  EXPECT(mx_arena_add(&mine, &config) == NULL && reserved() == before && at_all() == 1);
  config.size++;
  mx_arena_t* const least = mx_arena_add(&mine, &config);
  EXPECT(least != NULL && least->slices == 1 && at_all() == 2);
  EXPECT(mx_arena_of(&mine, start) == NULL && mx_arena_of(&mine, &mine) == NULL);
  EXPECT(mx_arena_of(&mine, arena->start + 3 * MX_SLICE_SIZE - 1) == arena);
  EXPECT(mx_arena_of(&mine, arena->start + 3 * MX_SLICE_SIZE) == NULL);
  const int64_t used = committed();
  EXPECT(mx_arena_touch(arena, arena->start, 0) == 0 && committed() == used);
  mx_arenas_destroy(&mine);
  EXPECT(at_all() == 0 && mx_arena_of(&mine, start + MX_SLICE_SIZE) == NULL);
}

// Nothing was zeroed: all of it counts as used from the start, until it goes.
static void test_used_memory(void) {
  const int64_t before = committed();
  mx_arena_config_t config = mx_arena_config(memory(5), 5 * MX_SLICE_SIZE);
  config.is_committed = true;
  config.is_owned = config.is_zero = false;
  mx_slices_t got;
  EXPECT(mx_arena_add(&mine, &config) != NULL);
  EXPECT(committed() == before + (int64_t)(5 * MX_SLICE_SIZE));
  mi_option_enable(mi_option_disallow_os_alloc);
  EXPECT(take(2, &got) && !got.is_zero);
  mx_slices_t more;
  EXPECT(!take(4, &more));  // but for 3 all are free
  const size_t per = mx_arena_bits_per_slice();
  EXPECT(mx_arena_is_present(got.arena, got.start, 2 * MX_SLICE_SIZE));
  EXPECT(mx_arena_untouch(got.arena, got.start, MX_SLICE_SIZE) == per);
  EXPECT(mx_arena_untouch(got.arena, got.start, MX_SLICE_SIZE) == 0);
  EXPECT(!mx_arena_is_present(got.arena, got.start, 2 * MX_SLICE_SIZE));
  EXPECT(mx_arena_is_present(got.arena, got.start + MX_SLICE_SIZE, MX_SLICE_SIZE));
  EXPECT(!mx_arena_has_present(got.arena, got.index, 1));
  EXPECT(mx_arena_has_present(got.arena, got.index, 2));
  EXPECT(mx_arena_present_in(got.arena, got.index, 2) == per);
  uint8_t* const last = got.start + MX_SLICE_SIZE - mx_facts.os_page;
  EXPECT(mx_arena_touch(got.arena, last, 1) == 1 && mx_arena_has_present(got.arena, got.index, 1));
  EXPECT(!mx_arena_is_present(got.arena, got.start, MX_SLICE_SIZE));
  EXPECT(mx_arena_untouch(got.arena, last, mx_facts.os_page) == 1);
  EXPECT(mx_arena_touch(got.arena, got.start, 2 * MX_SLICE_SIZE) == per);
  memset(got.start, 1, 2 * MX_SLICE_SIZE);
  const size_t size = mx_arena_discard(got.arena, got.start + MX_SLICE_SIZE, MX_SLICE_SIZE);
  EXPECT(size == MX_SLICE_SIZE && got.start[0] == 1 && got.start[MX_SLICE_SIZE] == 0);
  EXPECT(committed() == before + (int64_t)(4 * MX_SLICE_SIZE));
  mi_option_disable(mi_option_disallow_os_alloc);
  mx_arenas_destroy(&mine);
  EXPECT(committed() == before);
}

// Each time eight are there the next ones are twice as large; at least they hold what is asked for.
static void test_sizes(void) {
  const int64_t before = reserved();
  const long usual = mi_option_get(mi_option_arena_reserve);
  static const long wanted[] = {-1, 0, 1, 48 * 1024};
  // On 32 bits an arena is no larger than the program asks for.
  static const size_t least[] = {32, 32, 32, MX_64BIT ? 48 : 32};
  size_t count = 0;
  for (int i = 0; i < 4; i++, count++) {
    mi_option_set(mi_option_arena_reserve, wanted[i]);
    mx_arena_t* const arena = mx_arena_reserve(&mine, 1, -1);
    EXPECT(arena != NULL && arena->slices == least[i] * MX_MIB / MX_SLICE_SIZE);
  }
  mx_arena_t* const large = mx_arena_reserve(&mine, 1000, -1);
  EXPECT(large != NULL && large->slices == 1000);
  for (count++; count < 8; count++) mx_arena_reserve(&mine, 1, -1);
  EXPECT(bring(&mine, 4) != NULL);  // does not count
  mx_arena_t* const ninth = mx_arena_reserve(&mine, 1, -1);
  EXPECT(ninth != NULL && ninth->slices == (MX_64BIT ? 96 : 32) * MX_MIB / MX_SLICE_SIZE);
  mx_arenas_destroy(&mine);
  EXPECT(reserved() == before);
  mi_option_set(mi_option_arena_reserve, usual);
}

static void test_eager(void) {
  const long usual = mi_option_get(mi_option_arena_eager_commit);
  mi_option_set(mi_option_arena_reserve, 32 * 1024);
  for (long eager = 0; eager < 2; eager++) {
    mi_option_set(mi_option_arena_eager_commit, eager);
    const int64_t before = reserved();
    mx_arena_t* const arena = mx_arena_reserve(&mine, 1, -1);
    const size_t ready = mx_bits_count(arena->committed, 0, arena->slices);
    EXPECT(eager == 1 ? ready == arena->slices : ready < arena->slices / 4);
    mx_arenas_destroy(&mine);
    EXPECT(reserved() == before);
  }
  mi_option_set(mi_option_arena_eager_commit, usual);
}

// No more than so many; what comes then leaves nothing behind, also when lists become one.
static void test_most(void) {
  const int64_t before = reserved();
  mx_arena_config_t config = mx_arena_config(memory(1), MX_SLICE_SIZE);
  config.is_committed = config.is_exclusive = true;
  config.is_owned = false;
  for (size_t i = 0; i < MX_ARENAS_MAX - 1; i++) EXPECT(mx_arena_add(&mine, &config) != NULL);
  mx_arena_t* first = bring(&others, 4);
  EXPECT(first != NULL && bring(&others, 4) != NULL);
  mx_add_relaxed(&others.in_use, (intptr_t)3);
  mx_add_relaxed(&others.purgeable, (intptr_t)2);
  mx_store_relaxed(&others.purge_at, (uint64_t)77);
  mx_arenas_hand_over(&others, &mine);
  EXPECT(at_all() == MX_ARENAS_MAX && mx_load_relaxed(&others.count) == 0);
  EXPECT(mx_arena_at(&mine, MX_ARENAS_MAX - 1) == first && mx_arena_at(&others, 0) == NULL);
  EXPECT(mx_load_relaxed(&mine.in_use) == 3 && mx_load_relaxed(&others.in_use) == 0);
  EXPECT(mx_load_relaxed(&mine.purgeable) == 2 && mx_load_relaxed(&others.purgeable) == 0);
  EXPECT(mx_load_relaxed(&mine.purge_at) == 77 && mx_load_relaxed(&others.purge_at) == 0);
  const int64_t full = reserved();
  EXPECT(mx_arena_add(&mine, &config) == NULL && reserved() == full && at_all() == MX_ARENAS_MAX);
  mi_option_set(mi_option_arena_reserve, 32 * 1024);
  EXPECT(mx_arena_reserve(&mine, 1, -1) == NULL && reserved() == full);
  mx_arenas_destroy(&mine);
  EXPECT(at_all() == 0 && mx_load_relaxed(&mine.in_use) == 0 && reserved() > before);
  EXPECT(mx_arena_add(&mine, &config) != NULL);
  mx_arenas_destroy(&mine);
}

// ---- choosing ----------------------------------------------------------------------------------

static void test_choice(void) {
  mx_slices_t got, more;
  mx_arena_t* const given = bring(&mine, 64);
  mx_arena_config_t config = mx_arena_config(memory(64), 64 * MX_SLICE_SIZE);
  config.is_committed = config.is_exclusive = true;
  config.is_owned = false;
  mx_arena_t* const apart = mx_arena_add(&mine, &config);
  mi_option_enable(mi_option_disallow_os_alloc);
  EXPECT(take(40, &got) && got.arena == given);
  EXPECT(!take(40, &more));  // the other one serves only those that name it
  EXPECT(take_of(apart, 40, 1, &more) && more.arena == apart);
  give_back(&more);
  EXPECT(take_of(apart, 3, 8, &more) && mx_is_aligned(more.start, 8 * MX_SLICE_SIZE));
  give_back(&more);
  give_back(&got);
  EXPECT(take(64, &got) && got.count == 64);  // all of it again
  EXPECT(mx_load_relaxed(&given->free_slices) == 0 && !take(1, &more));
  give_back(&got);
  // What the program brought, too, is left alone where arenas are not to serve.
  mi_option_enable(mi_option_disallow_arena_alloc);
  EXPECT(!take(1, &got));
  EXPECT(take_of(given, 1, 1, &got));
  give_back(&got);
  mi_option_disable(mi_option_disallow_arena_alloc);
  mi_option_disable(mi_option_disallow_os_alloc);
  EXPECT(take(80, &got) && got.arena->is_on_demand);
  give_back(&got);
  mx_arenas_destroy(&mine);
}

// An arena that had no run as long as was asked for is passed over until one as long is free there,
// for memory that was used and for any.
static void look_for_lack(bool is_used) {
  mx_slices_t got[3], more;
  mx_arena_t* const arena = bring(&mine, 12);
  mx_atomic(size_t)* const lacks = (is_used ? &arena->lacks_dirty : &arena->lacks);
  mi_option_enable(mi_option_disallow_os_alloc);
  if (is_used) mi_option_set(mi_option_purge_delay, 100000);  // only what waits is looked for
  for (int i = 0; i < 3; i++) {
    EXPECT(take(4, &got[i]));
    if (is_used) mx_arena_touch(arena, got[i].start, 4 * MX_SLICE_SIZE);
  }
  const int middle = (got[0].index == 4 ? 0 : got[1].index == 4 ? 1 : 2);
  for (int i = 0; i < 3; i++) {
    if (i != middle) give_back(&got[i]);
  }
  EXPECT(!take(6, &more) && mx_load_relaxed(lacks) == 6);
  EXPECT(!take(7, &more) && take(4, &more));
  give_back(&more);
  EXPECT(mx_load_relaxed(lacks) == 6);
  EXPECT(!take(5, &more) && mx_load_relaxed(lacks) == 5);
  EXPECT(take(4, &more));
  mx_slices_free(&mine, arena, more.index, 1);
  mx_slices_free(&mine, arena, more.index + 1, 3);
  EXPECT(mx_load_relaxed(lacks) == 5);
  give_back(&got[middle]);
  EXPECT(mx_load_relaxed(lacks) == 13);
  EXPECT(take(6, &more) && more.arena == arena);
  give_back(&more);
  mi_option_set(mi_option_purge_delay, -1);
  mi_option_disable(mi_option_disallow_os_alloc);
  mx_arenas_destroy(&mine);
}

static void test_lack(void) { look_for_lack(false); }
static void test_lack_dirty(void) { look_for_lack(true); }

// What is free side by side and was freed in parts, in any order, is found, and found to be as long.
static void test_lack_parts(void) {
  mx_slices_t all, more;
  mx_arena_t* const arena = bring(&mine, 200);
  mi_option_enable(mi_option_disallow_os_alloc);
  EXPECT(take(200, &all));
  mx_slices_free(&mine, arena, 0, 1);
  mx_slices_free(&mine, arena, 130, 70);
  EXPECT(!take(71, &all) && mx_load_relaxed(&arena->lacks) == 71);
  mx_slices_free(&mine, arena, 2, 1);
  mx_slices_free(&mine, arena, 1, 1);
  EXPECT(mx_load_relaxed(&arena->lacks) == 71);
  EXPECT(take(70, &all) && all.index == 130);
  mx_slices_free(&mine, arena, 5, 1);
  EXPECT(!take(4, &more) && mx_load_relaxed(&arena->lacks) == 4);
  mx_slices_free(&mine, arena, 4, 1);
  EXPECT(mx_load_relaxed(&arena->lacks) == 4);
  mx_slices_free(&mine, arena, 3, 1);
  EXPECT(mx_load_relaxed(&arena->lacks) == 7);
  mx_slices_free(&mine, arena, 6, 57);
  EXPECT(mx_load_relaxed(&arena->lacks) == 64);
  mx_slices_free(&mine, arena, 63, 1);
  EXPECT(mx_load_relaxed(&arena->lacks) == SIZE_MAX);
  mx_slices_free(&mine, arena, 64, 66);
  give_back(&all);
  EXPECT(take(200, &all));
  give_back(&all);
  mi_option_disable(mi_option_disallow_os_alloc);
  mx_arenas_destroy(&mine);
}

// Memory that may not go is never purged, nor unmapped.
static void test_pinned(void) {
  mx_slices_t got;
  mx_arena_config_t config = mx_arena_config(memory(16), 16 * MX_SLICE_SIZE);
  config.is_committed = config.is_pinned = true;
  config.is_owned = false;
  mx_arena_t* const arena = mx_arena_add(&mine, &config);
  mi_option_set(mi_option_purge_delay, 0);
  EXPECT(take(8, &got) && got.arena == arena && got.is_zero);
  memset(got.start, 5, 8 * MX_SLICE_SIZE);
  mx_arena_touch(arena, got.start, 8 * MX_SLICE_SIZE);
  give_back(&got);
  mx_arenas_purge(&mine, true);
  EXPECT(!mx_arenas_unmap_free(&mine));
  EXPECT(mx_load_relaxed(&mine.purgeable) == 0 && got.start[0] == 5);
  EXPECT(take(8, &got) && !got.is_zero && got.start[0] == 5);
  give_back(&got);
  // Of a part of it, too, that was used: the rest reads as zero.
  EXPECT(take(16, &got) && !got.is_zero);
  mx_arena_touch(arena, got.start, 3 * MX_SLICE_SIZE);
  give_back(&got);
  EXPECT(mx_load_relaxed(&mine.purgeable) == 0);
  mi_option_set(mi_option_purge_delay, -1);
  mx_arenas_destroy(&mine);
}

// Of the node that is asked for, or of one that is made for it; else of any.
static void test_nodes(void) {
  const mx_slices_request_t request = {4, 4, 4, NULL, 1, false, false};
  mx_slices_t got;
  mx_arena_t* const here = bring(&mine, 64);
  here->numa_node = 0;
  mi_option_set(mi_option_arena_reserve, 32 * 1024);
  EXPECT(mx_slices_alloc(&mine, &request, &got) && got.arena != here && got.arena->numa_node == 1);
  EXPECT(at_all() == 2 && mx_is_aligned(got.start, 4 * MX_SLICE_SIZE));
  mx_arena_t* const there = got.arena;
  give_back(&got);
  EXPECT(mx_slices_alloc(&mine, &request, &got) && got.arena == there && at_all() == 2);
  give_back(&got);
  mi_option_enable(mi_option_disallow_os_alloc);
  there->numa_node = 2;
  EXPECT(mx_slices_alloc(&mine, &request, &got) && at_all() == 2);  // better than none
  give_back(&got);
  const mx_slices_request_t named = {4, 4, 1, here, 1, false, false};
  EXPECT(mx_slices_alloc(&mine, &named, &got) && got.arena == here);
  give_back(&got);
  mi_option_disable(mi_option_disallow_os_alloc);
  mx_arenas_destroy(&mine);
}

// ---- records -----------------------------------------------------------------------------------

static bool hand_out(mx_arena_t* arena, size_t index, mx_slices_t* got, mx_commit_t expected) {
  if (!mx_arena_claim(arena, index, 1)) return false;
  const mx_commit_t result = mx_slices_hand_out(&mine, arena, index, 1, got);
  if (result == MX_COMMIT_DONE) memset(mx_arena_record(arena, index), 1, MX_PAGE_RECORD_STRIDE);
  return result == expected;
}

// They are mapped as slices come into use. Where something else lies the arena ends, and that stays
// what it is when the arena goes.
static void test_records(void) {
  mx_slices_t got;
  mi_option_set(mi_option_arena_reserve, 128 * 1024);
  const int64_t before = reserved();
  mx_arena_t* const arena = mx_arena_reserve(&mine, 1, -1);
  if (!MX_GROWING_RECORDS || arena->is_reserved) {
    mx_arenas_destroy(&mine);
    return;
  }
  EXPECT(reserved() - before < (int64_t)(arena->meta_size / 2 + 4 * MX_SLICE_SIZE));
  const size_t part = (size_t)1 << arena->record_shift, end = arena->slices;
  const size_t part_size = part * MX_PAGE_RECORD_STRIDE;
  EXPECT(end >= 4 * part && mx_load_relaxed(&arena->recorded) == 1);
  EXPECT(hand_out(arena, 0, &got, MX_COMMIT_DONE) && hand_out(arena, part, &got, MX_COMMIT_DONE));
  EXPECT(hand_out(arena, end - 1, &got, MX_COMMIT_DONE));
  EXPECT(mx_load_relaxed(&arena->recorded) == (3 | (uint64_t)1 << (end - 1) / part));
  const int64_t seen = reserved();
  EXPECT(hand_out(arena, part + 1, &got, MX_COMMIT_DONE));
  EXPECT(reserved() - seen <= (int64_t)(4 * MX_SLICE_SIZE));  // no records again

  uint8_t* const place = arena->records + 3 * part_size;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  EXPECT(mmap(place, part_size, PROT_READ | PROT_WRITE, flags, -1, 0) == (void*)place);
  memset(place, 7, part_size);
  EXPECT(hand_out(arena, 4 * part - 1, &got, MX_COMMIT_TAKEN));
  EXPECT(mx_load_relaxed(&arena->usable) == 3 * part && mx_bits_test(arena->free, 4 * part - 1));
  EXPECT(hand_out(arena, 3 * part - 1, &got, MX_COMMIT_DONE));
  EXPECT(take((4 * part), &got) && got.arena != arena);
  mx_arenas_destroy(&mine);
  EXPECT(reserved() == before && place[0] == 7 && place[part_size - 1] == 7);
  munmap(place, part_size);
}

// A place that is empty for the moment.
static void test_gap(void) {
  mx_slices_t got;
  mx_arena_t* const first = bring(&mine, 4);
  mx_arena_t* const lost = bring(&mine, 4);
  EXPECT(take_of(lost, 2, 1, &got));
  give_back(&got);
  mx_store_release(&mine.items[1], (mx_arena_t*)NULL);
  mx_arena_t* const last = bring(&mine, 8);
  EXPECT(mx_load_relaxed(&mine.first) == 2);  // it is looked at first, whatever was before
  EXPECT(mx_arena_of(&mine, lost->start) == NULL && mx_arena_of(&mine, last->start) == last);
  mi_option_enable(mi_option_disallow_os_alloc);
  EXPECT(take(6, &got) && got.arena == last);
  mx_slices_t more;
  EXPECT(take(3, &more) && more.arena == first);
  give_back(&got);
  give_back(&more);
  EXPECT(!take(9, &got));
  mi_option_disable(mi_option_disallow_os_alloc);
  mx_arenas_purge(&mine, true);
  EXPECT(mx_arena_reserve(&mine, 1, -1) != NULL && at_all() == 4);
  mx_arenas_destroy(&mine);
  EXPECT(at_all() == 0);
  mx_store_release(&mine.items[0], lost);
  mx_store_release(&mine.count, (size_t)1);
  mx_arenas_destroy(&mine);
}

// Memory of the program's that cannot be used as it is becomes so slice by slice, and no more of it.
static void test_uncommitted(void) {
  mx_slices_t got;
  uint8_t* const start = memory(64);
  mprotect(start, 64 * MX_SLICE_SIZE, PROT_NONE);
  mx_arena_config_t config = mx_arena_config(start, 64 * MX_SLICE_SIZE);
  config.is_owned = false;
  mx_arena_t* const arena = mx_arena_add(&mine, &config);
  EXPECT(take_of(arena, 3, 1, &got));
  memset(got.start, 1, 3 * MX_SLICE_SIZE);
  EXPECT(mx_bits_count(arena->committed, 0, 64) == 3);
  give_back(&got);
  mx_arenas_destroy(&mine);
  munmap(start, 64 * MX_SLICE_SIZE);
}

// ---- commit functions --------------------------------------------------------------------------

typedef struct commits_s {
  size_t asked;
  bool refuses, clears;
} commits_t;

static bool commit(bool commits, void* start, size_t size, bool* is_zero, void* arg) {
  commits_t* const c = (commits_t*)arg;
  (void)start;
  (void)size;
  if (!commits) return !c->refuses;
  c->asked++;
  if (is_zero != NULL) *is_zero = c->clears;
  return !c->refuses;
}

static mx_arena_t* bring_function(commits_t* c, size_t slices) {
  mx_arena_config_t config = mx_arena_config(memory(slices), slices * MX_SLICE_SIZE);
  config.is_owned = false;
  config.commit_fn = &commit;
  config.commit_arg = c;
  return mx_arena_add(&mine, &config);
}

static void test_commit_functions(void) {
  static commits_t first, second;
  mx_slices_t got, more;
  mx_arena_t* const a = bring_function(&first, 32);
  mx_arena_t* const b = bring_function(&second, 32);
  mx_store_relaxed(&mine.first, (size_t)0);
  mi_option_enable(mi_option_disallow_os_alloc);
  first.refuses = second.clears = true;
  // What the one refuses the other one may have.
  EXPECT(take(4, &got) && got.arena == b && got.is_zero && first.asked > 0);
  EXPECT(mx_load_relaxed(&a->free_slices) == 32 && mx_load_relaxed(&mine.in_use) == 4);
  second.refuses = true;
  EXPECT(!take(4, &more) && mx_load_relaxed(&b->free_slices) == 28);
  second.refuses = second.clears = false;
  const int64_t before = committed();
  EXPECT(take(4, &more) && more.arena == b && !more.is_zero);
  EXPECT(committed() == before + (int64_t)(4 * MX_SLICE_SIZE));  // it may hold anything
  // To give it back is the function's, too; if it will not, the memory stays what it is.
  mi_option_set(mi_option_purge_delay, 0);
  second.refuses = true;
  const size_t asked = second.asked;
  give_back(&more);
  EXPECT(mx_bits_count(b->committed, more.index, 4) == 4);
  EXPECT(take_of(b, 4, 1, &more) && !more.is_zero && second.asked == asked);
  second.refuses = false;
  give_back(&more);
  EXPECT(mx_bits_count(b->committed, more.index, 4) == 0 && committed() == before);
  give_back(&got);
  mi_option_set(mi_option_purge_delay, -1);
  mi_option_disable(mi_option_disallow_os_alloc);
  mx_arenas_destroy(&mine);
}

// ---- plots -------------------------------------------------------------------------------------

// A page grows within its plot, to the last slice, into what nobody had or its own heap.
static void test_plot_growth(void) {
  static mx_plot_t plots[2];
  static mx_arena_t arena;
  arena.plots = plots;
  const size_t last = MX_WORD_BITS - 1;
  EXPECT(mx_plot_can_grow(&arena, last - 3, 4) && !mx_plot_can_grow(&arena, last - 3, 5));
  EXPECT(mx_plot_can_grow(&arena, last, 1) && !mx_plot_can_grow(&arena, last + 1, 1));
  EXPECT(mx_plot_can_grow(&arena, last + 2, 1));
  mx_plot_note_use(&plots[0], mx_plot_run(last - 1, 1), 1);
  EXPECT(mx_plot_can_grow(&arena, last - 2, 3));
  mx_store_relaxed(&plots[0].own, (uint64_t)0);
  EXPECT(!mx_plot_can_grow(&arena, last - 2, 3) && mx_plot_can_grow(&arena, last, 1));
}

// ---- a limit of memory -------------------------------------------------------------------------

static int calls, hard_calls;
static size_t gives;  // bytes that the function finds

static void on_pressure(bool is_hard) {
  if (is_hard) hard_calls++;
  else calls++;
  if (!is_hard || gives == 0) return;
  mx_count_add(&mx_process_counters.committed, -(int64_t)gives);
}

static bool allowed(size_t bytes) {
  calls = hard_calls = 0;
  return mx_arenas_allow(&mine, bytes);
}

static void test_limit(void) {
  mx_count_add(&mx_process_counters.committed, (int64_t)(4 * MX_MIB));  // somebody's
  const size_t now = (size_t)committed();
  const size_t limit = 8 * (now + 64 * MX_MIB) / 7;  // of which an eighth is kept free, if it can
  const size_t room = limit - limit / 8 - now;
  EXPECT(allowed(SIZE_MAX / 2) && calls == 0);
  mx_store_relaxed(&mx_memory_limit.bytes, limit);
  mx_store_relaxed(&mx_memory_limit.on_pressure, &on_pressure);
  EXPECT(allowed(room) && calls == 0);
  EXPECT(allowed(room + 1) && calls == 1 && hard_calls == 0);
  EXPECT(allowed(2 * limit) && calls == 1 && hard_calls == 0);  // that is only a wish
  mx_store_relaxed(&mx_memory_limit.is_hard, 1);
  EXPECT(allowed(limit - now) && calls == 1 && hard_calls == 0);
  EXPECT(!allowed(limit - now + 1) && calls == 1 && hard_calls == 1);
  mx_slices_t got;
  EXPECT(!take(2 * limit / MX_SLICE_SIZE, &got) && hard_calls > 0 && at_all() == 0);
  gives = MX_MIB;
  EXPECT(allowed(limit - now + MX_MIB) && hard_calls == 1);
  mx_count_add(&mx_process_counters.committed, (int64_t)gives);
  gives = 0;
  // What waits goes first, and then nobody is asked.
  mx_arena_t* const arena = bring(&mine, 256);
  mi_option_set(mi_option_purge_delay, 100000);
  EXPECT(take_of(arena, 256, 1, &got));
  memset(got.start, 1, 256 * MX_SLICE_SIZE);
  mx_arena_touch(arena, got.start, 256 * MX_SLICE_SIZE);
  give_back(&got);
  const size_t left = (size_t)committed();
  EXPECT(mx_load_relaxed(&mine.purgeable) > 0 && left > now);
  EXPECT(allowed(limit - limit / 8 - left + 1) && calls == 0);
  EXPECT(mx_load_relaxed(&mine.purgeable) == 0 && (size_t)committed() < left);
  mi_option_set(mi_option_purge_delay, -1);
  mx_store_relaxed(&mx_memory_limit.on_pressure, NULL);
  EXPECT(!allowed(limit) && allowed(1));
  mx_store_relaxed(&mx_memory_limit.is_hard, 0);
  EXPECT(allowed(limit));
  mx_store_relaxed(&mx_memory_limit.bytes, (size_t)0);
  mx_arenas_destroy(&mine);
  mx_count_add(&mx_process_counters.committed, -(int64_t)(4 * MX_MIB));
}

// The place that would be next, where places are in order.
static const void* next_place(void) {
  if (MX_RANDOM_ADDRESS) return NULL;
  void* const p = mx_vmem_place(MX_ZONE_NEAR, MX_GIB, 1);
  mx_vmem_placed_is_free(MX_ZONE_NEAR, p, MX_GIB);
  return p;
}

// A test that leaves no arena leaves their addresses to the next ones, too.
static void run(void (*test)(void)) {
  const void* const next = next_place();
  test();
  EXPECT(at_all() == 0 && next_place() == next);
}

int main(void) {
  static void (*const tests[])(void) = {
      test_odd_memory, test_used_memory, test_sizes, test_eager, test_choice, test_lack,
      test_lack_dirty, test_lack_parts, test_nodes, test_records, test_gap, test_uncommitted,
      test_pinned, test_commit_functions, test_plot_growth, test_limit, test_most};
  mi_option_set(mi_option_purge_delay, -1);
  mi_free(mi_malloc(1));
  for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) run(tests[i]);
  printf("arenas: %d failures\n", failures);
  return failures != 0;
}
