// SPDX-License-Identifier: MIT
// When free slices go, on a clock that moves when told, in arenas of a list of their own: not before the
// delay is over, then at once; beyond a bound without delay; the highest first; and what was wanted
// again soon after it went lets more wait, for a while.
#include "../stress.h"

#include "arena/arena.h"
#include "base/options.h"
#include "mem/vmem.h"
#include "mimalloc.h"
#include "mock_os.h"
#include "os/os.h"

#define FLOOR 96      // slices that may wait in any case, and so many more are worth a call
#define BATCH 16
#define KEEP_MSECS 10000
#define STEP 8        // slices that go on an allocation's way, each millisecond; and so many wait
#define LOOKS 16384   // where a step is one larger

static mx_arenas_t mine;
static mx_arena_t* arena;

static intptr_t waiting(void) { return mx_load_relaxed(&mine.purgeable); }
static uint64_t next_purge(void) { return mx_load_relaxed(&mine.purge_at); }
static intptr_t gone(void) { return mx_load_relaxed(&mine.gone); }
static intptr_t keep(void) { return mx_load_relaxed(&mine.keep); }
static uint64_t now(void) { return mx_os_clock_msecs(); }

static void begin(size_t slices, long delay) {
  const size_t size = slices * MX_SLICE_SIZE;
  void* const p = mx_vmem_map(size, MX_SLICE_SIZE, false);
  mx_arena_config_t config = mx_arena_config(p, size);
  arena = mx_arena_add(&mine, &config);
  check(p != NULL && arena != NULL);
  mi_option_set(mi_option_purge_delay, delay);
  mi_option_set(mi_option_arena_purge_mult, 1);
}

static void end(void) {
  mx_arenas_destroy(&mine);
  mx_store_relaxed(&mine.gone, (intptr_t)0);
  mx_store_relaxed(&mine.keep, (intptr_t)0);
  mx_store_relaxed(&mine.keep_until, (uint64_t)0);
}

static mx_slices_t take_for(size_t count, bool is_page) {
  mx_slices_t got;
  const mx_slices_request_t request = {count, count, 1, arena, -1, false, is_page};
  check(mx_slices_alloc(&mine, &request, &got));
  mx_arena_touch(arena, got.start, count * MX_SLICE_SIZE);
  return got;
}

static mx_slices_t take(size_t count) { return take_for(count, false); }

static void give_back(mx_slices_t got) { mx_slices_free(&mine, arena, got.index, got.count); }

static bool is_gone(size_t index, size_t count) { return mx_bits_count(arena->dirty, index, count) == 0; }

static bool is_there(size_t index, size_t count) {
  return mx_bits_count(arena->dirty, index, count) == count;
}

static void tick_after(uint64_t msecs) {
  mock_sleep(msecs);
  mx_arenas_purge_tick(&mine);
}

// What the background thread does: all that is due goes.
static void purge_after(uint64_t msecs) {
  mock_sleep(msecs);
  mx_arenas_purge(&mine, false);
}

// ---- the delay ---------------------------------------------------------------------------------

static void test_delay(long mult) {
  begin(64, 100);
  mi_option_set(mi_option_arena_purge_mult, mult);
  const uint64_t delay = 100 * (uint64_t)mult;
  mx_arenas_purge_tick(&mine);
  check(next_purge() == 0);
  const mx_slices_t got = take(8);
  give_back(got);
  check(waiting() == 8 && next_purge() == now() + delay + 1);
  tick_after(delay);
  check(waiting() == 8 && is_there(got.index, 8));
  tick_after(1);
  check(waiting() == 0 && is_gone(got.index, 8) && next_purge() == 0 && gone() == 8);
  tick_after(delay);
  check(next_purge() == 0);
  end();
}

// What is younger waits on, and is looked at again after a quarter of the delay.
static void test_age(bool is_old_first) {
  begin(64, 100);
  const mx_slices_t one = take(6), other = take(6);
  const mx_slices_t old = (is_old_first ? one : other), young = (is_old_first ? other : one);
  give_back(old);
  mock_sleep(60);
  give_back(young);
  tick_after(41);
  check(waiting() == 6 && is_gone(old.index, 6) && is_there(young.index, 6));
  check(next_purge() == now() + 100 / 4 + 1);
  tick_after(26);
  check(waiting() == 6);
  tick_after(next_purge() - now());
  tick_after(26);
  check(waiting() == 0 && is_gone(young.index, 6));
  end();
}

// An allocation that comes by gives back a step for each millisecond since all of it was due, the
// highest first, of many an eighth, and the next goes on; a larger one, less often, where there is
// more to look at. Nobody else stops there.
static void test_steps(void) {
  begin(64 * STEP, 100);
  mx_slices_t got = take(5 * STEP + STEP / 2);
  give_back(got);
  tick_after(101);
  check(waiting() == 4 * STEP + STEP / 2 && is_there(got.index, 4 * STEP + STEP / 2));
  check(is_gone(got.index + 4 * STEP + STEP / 2, STEP) && next_purge() == now() + 1);
  tick_after(0);
  check(waiting() == 4 * STEP + STEP / 2);
  tick_after(1);
  check(waiting() == 3 * STEP + STEP / 2 && next_purge() == now() + 1);
  tick_after(3);
  check(waiting() == 2 * STEP + STEP / 2 && next_purge() == now() - 1);
  tick_after(0);
  check(waiting() == STEP + STEP / 2 && next_purge() == now());
  tick_after(0);
  check(waiting() == STEP / 2 && is_there(got.index, STEP / 2) && next_purge() == now() + 1);
  tick_after(0);
  check(waiting() == STEP / 2);
  tick_after(1);
  check(waiting() == 0 && is_gone(got.index, STEP / 2) && next_purge() == 0);
  got = take(5 * STEP);
  give_back(got);
  tick_after(101 + 3 * 8);
  check(waiting() == 2 * STEP && next_purge() == now() - 3 * 8 + 3);
  tick_after(0);
  check(waiting() == 0);
  got = take(5 * STEP);
  give_back(got);
  tick_after(101);
  check(waiting() == 4 * STEP);
  purge_after(0);
  check(waiting() == 0);
  end();
  begin(LOOKS + 4 * STEP, 100);
  mx_store_relaxed(&mine.keep, (intptr_t)LOOKS);
  give_back(take(LOOKS + 4 * STEP));
  mx_store_relaxed(&mine.keep, (intptr_t)0);
  tick_after(101);
  check(waiting() == LOOKS + 2 * STEP && next_purge() == now() + 2);
  end();
}

// What is in use again does not go, and is free of its past.
static void test_used_again(void) {
  begin(16, 100);
  mx_slices_t got = take(16);
  give_back(got);
  mock_sleep(90);
  got = take(16);
  check(waiting() == 0 && !got.is_zero);
  tick_after(200);
  check(is_there(got.index, 16));
  give_back(got);
  const uint64_t at = next_purge();
  check(at > now() && at <= now() + 101);
  end();
}

static void test_extremes(void) {
  begin(64, 0);
  mx_slices_t got = take(8);
  mx_arena_untouch(arena, got.start, 8 * MX_SLICE_SIZE);
  give_back(got);  // nothing was used, and nothing waits
  check(waiting() == 0 && next_purge() == 0);
  got = take(8);
  give_back(got);
  check(waiting() == 0 && is_gone(got.index, 8));
  end();
  // No wait is longer than clocks of 32 bits can tell.
  begin(64, LONG_MAX);
  mi_option_set(mi_option_arena_purge_mult, 1000000);
  give_back(take(8));
  check(next_purge() == now() + INT32_MAX + 1);
  mx_arenas_purge(&mine, true);
  check(waiting() == 0);
  end();
}

static int woken;
static void on_wake(void) { woken++; }

// Nothing goes by itself, but where slices are taken from anywhere: beyond the bound. It does when
// asked for, and when the option is another one.
static void test_never(void) {
  begin(1024, -1);
  const mx_slices_t used = take(1);
  mx_slices_t got = take(2 * FLOOR);
  give_back(got);
  check(waiting() == (MX_SCATTER ? FLOOR : 2 * FLOOR));
  check((next_purge() == 0) == !MX_SCATTER);
  tick_after(1000000);
  mx_arenas_purge(&mine, false);
  check(waiting() == (MX_SCATTER ? FLOOR : 2 * FLOOR) && is_there(got.index, FLOOR));
  mx_arenas_purge(&mine, true);
  check(waiting() == 0 && is_gone(got.index, 2 * FLOOR));
  got = take(FLOOR);
  give_back(got);
  check(waiting() == FLOOR);
  mi_option_set(mi_option_purge_delay, 100);
  give_back(used);
  if (MX_SCATTER) mx_arenas_follow_delay(&mine);  // it was due at the end of time
  check(next_purge() == now() + 101);
  purge_after(101);
  check(waiting() == 0);
  // What waits is due again though nothing is freed after the option has changed.
  mi_option_set(mi_option_purge_delay, 100);
  give_back(take(FLOOR));
  mi_option_set(mi_option_purge_delay, -1);
  tick_after(200);
  check(waiting() == FLOOR);
  mi_option_set(mi_option_purge_delay, 100);
  mx_arenas_follow_delay(&mine);
  check(next_purge() != 0);
  purge_after(101);
  check(waiting() == 0);
  // It is at once when nothing may wait any more.
  give_back(take(FLOOR));
  check(waiting() == FLOOR && next_purge() == now() + 101);
  mi_option_set(mi_option_purge_delay, 0);
  mx_arenas_follow_delay(&mine);
  check(next_purge() == now() + 1);
  purge_after(1);
  check(waiting() == 0);
  // A thread in the background does not lift the bound where slices are taken from anywhere.
  mi_option_set(mi_option_purge_delay, -1);
  mx_store_relaxed(&mx_arenas_background, &on_wake);
  give_back(take(2 * FLOOR));
  check(waiting() == (MX_SCATTER ? FLOOR : 2 * FLOOR));
  mx_store_relaxed(&mx_arenas_background, NULL);
  end();
}

// ---- the bound ---------------------------------------------------------------------------------

// With so many slices in use, and so many that may wait without end: how many wait at the most.
static void test_bound(size_t in_use, intptr_t kept, size_t bound, size_t batch) {
  begin(1024, 1000);
  mx_slices_t used = {0};
  if (in_use > 0) used = take(in_use);
  mx_store_relaxed(&mine.keep, kept);
  const mx_slices_t got = take(bound + batch - 1), more = take(1);
  check(mx_arenas_may_wait(&mine) >= (intptr_t)bound);
  give_back(got);
  // What is still in use lets a little more wait.
  check(waiting() == (intptr_t)(bound + batch - 1));
  const mx_slices_t* const highest = (more.index > got.index ? &more : &got);
  const size_t end_of_all = highest->index + highest->count;
  give_back(more);
  check(waiting() == (intptr_t)bound && is_gone(end_of_all - 1, 1));
  check(is_there((more.index < got.index ? more.index : got.index), 1));
  if (in_use > 0) give_back(used);
  mx_arenas_purge(&mine, true);
  check(waiting() == 0 && next_purge() == 0);
  end();
}

// A purge that comes when the delay is over needs no bound, and is told when something begins to wait.
static void test_background(void) {
  begin(1024, 100);
  mx_store_relaxed(&mx_arenas_background, &on_wake);
  woken = 0;
  const mx_slices_t got = take(400), other = take(100);
  give_back(got);
  check(waiting() == 400 && woken == 1);
  give_back(other);
  check(waiting() == 500 && woken == 1);
  purge_after(101);
  check(waiting() == 0);
  mx_store_relaxed(&mx_arenas_background, NULL);
  end();
}

// Near a limit nothing waits.
static void test_limit(void) {
  begin(256, 1000);
  const mx_slices_t got = take(64);
  const size_t committed = (size_t)mx_load_relaxed(&mx_process_counters.committed.current);
  mx_store_relaxed(&mx_memory_limit.bytes, committed * 2);
  give_back(got);
  check(waiting() == 64);
  const mx_slices_t more = take(64);
  mx_store_relaxed(&mx_memory_limit.bytes, committed * 8 / 7 - 8 * 1024);
  give_back(more);
  check(waiting() == 0 && is_gone(more.index, 64));
  // Nor is that left to somebody in the background.
  mx_store_relaxed(&mx_arenas_background, &on_wake);
  const mx_slices_t again = take(64);
  give_back(again);
  check(waiting() == 0 && is_gone(again.index, 64));
  mx_store_relaxed(&mx_arenas_background, NULL);
  mx_store_relaxed(&mx_memory_limit.bytes, (size_t)0);
  end();
}

// ---- runs --------------------------------------------------------------------------------------

static void test_least_run(void) {
  begin(256, 100);
  mi_option_set(mi_option_minimal_purge_size, 256);
  mx_slices_t got[5];
  static const size_t counts[] = {3, 1, 4, 1, 9};
  // Side by side, as all are there at once.
  mx_slices_t all = take(18);
  size_t index = all.index;
  for (int i = 0; i < 5; index += counts[i++]) {
    got[i] = all;
    got[i].index = index;
    got[i].count = counts[i];
  }
  for (int i = 0; i < 5; i += 2) give_back(got[i]);
  tick_after(101);
  check(waiting() == 3 && is_there(got[0].index, 3) && is_gone(got[2].index, 4));
  check(is_gone(got[4].index, 9));
  check(next_purge() == now() + 26);
  mx_arenas_purge(&mine, true);
  check(waiting() == 0 && is_gone(got[0].index, 3));
  // Without a delay they are looked at again, too.
  mi_option_set(mi_option_purge_delay, 0);
  got[0] = take(3);
  give_back(got[0]);
  check(waiting() == 3);
  tick_after(5);
  check(waiting() == 3 && next_purge() != 0);
  mi_option_set(mi_option_minimal_purge_size, 0);
  end();
  // Pieces of large OS pages would come back as small ones.
  if (mx_facts.large_page < 2 * MX_SLICE_SIZE) return;
  begin(256, 100);
  mi_option_set(mi_option_allow_thp, 2);
  const size_t large = mx_facts.large_page / MX_SLICE_SIZE;
  all = take(2 * large);
  got[0] = got[1] = all;
  got[0].count = large - 1;
  got[1].index += large;
  got[1].count = large;
  give_back(got[0]);
  give_back(got[1]);
  tick_after(101);
  check(waiting() == (intptr_t)large - 1 && is_gone(got[1].index, large));
  mi_option_set(mi_option_allow_thp, 1);
  end();
}

// ---- what is wanted again -----------------------------------------------------------------------

static void test_refaults(void) {
  begin(256, 100);
  give_back(take(40));
  purge_after(101);
  check(gone() == 40 && keep() == 0);
  // Pages count that get memory which has to be faulted in; huge blocks say themselves what does.
  mock_sleep(3);
  const mx_slices_t first = take_for(1, true);
  const uint64_t until = mx_load_relaxed(&mine.keep_until);
  check(until == now() + KEEP_MSECS);
  mock_sleep(5);
  const mx_slices_t second = take_for(1, true), huge = take(3);
  check(gone() == 38 && keep() == 2);
  mx_arenas_note_fresh(&mine, 5);
  check(gone() == 33 && keep() == 7 && mx_load_relaxed(&mine.keep_until) == until);
  // Where as much waits it would not have helped to wait longer.
  give_back(huge);
  mx_arenas_note_fresh(&mine, 3);
  mx_arenas_note_fresh(&mine, 1);
  check(gone() == 33 && keep() == 7);
  mx_arenas_note_fresh(&mine, 4);
  check(gone() == 32 && keep() == 8);
  // So many stay; what comes then is looked at when fewer may.
  const mx_slices_t more = take(17);
  give_back(more);
  purge_after(101);
  check(waiting() == 8 && next_purge() == until + 1);
  const intptr_t left = gone();
  check(left == 32 + (intptr_t)(3 + 17 - 8) || left == 32 + (17 - 8));
  mock_sleep(until - now() - 1);
  mx_arenas_purge(&mine, false);
  check(keep() == 8);
  mock_sleep(2);
  mx_arenas_purge_tick(&mine);
  check(keep() == 4 && waiting() == 4 && gone() == left - left / 2 - left % 2 + 4);
  check(mx_load_relaxed(&mine.keep_until) == now() + KEEP_MSECS);
  mx_store_relaxed(&mine.keep_until, now());
  mx_arenas_purge(&mine, true);
  check(keep() == 2);
  mx_store_relaxed(&mine.keep, (intptr_t)4);
  // No more than what went is wanted again.
  mx_store_relaxed(&mine.gone, (intptr_t)2);
  mx_arenas_note_fresh(&mine, 50);
  check(gone() == 0 && keep() == 6);
  mx_arenas_note_fresh(&mine, 50);
  check(gone() == 0 && keep() == 6);
  mx_store_relaxed(&mine.keep, (intptr_t)0);
  mock_sleep(7);
  mx_arenas_note_fresh(&mine, 50);
  check(keep() == 0 && mx_load_relaxed(&mine.keep_until) < now() + KEEP_MSECS);
  give_back(first);
  give_back(second);
  end();
}

// Where as much waits, but not as one run, a share of what is in use may wait for that.
static void test_refaults_in_pieces(void) {
  begin(256, 100);
  give_back(take(40));
  purge_after(101);
  const mx_slices_t all = take(80);
  check(gone() == 40 && keep() == 0);
  mx_slices_free(&mine, arena, all.index, 16);
  const intptr_t share = 64 / 4;
  mx_arenas_note_fresh(&mine, 4);
  check(waiting() == 16 && keep() == 4);
  mx_arenas_note_fresh(&mine, 15);
  check(keep() == share && gone() == 40 - share);
  mx_arenas_note_fresh(&mine, 15);
  check(keep() == share && gone() == 40 - share);
  mx_arenas_note_fresh(&mine, 20);  // more than waits
  check(keep() == share + 4);
  mx_slices_free(&mine, arena, all.index + 16, 64);
  end();
}

// ---- what is purged ----------------------------------------------------------------------------

// Of addresses that are mapped piece by piece only those of large OS pages are unmapped, to be had
// without them.
static void test_large(void) {
  if (!MX_PIECEWISE || MX_SCATTER) return;
  mi_option_set(mi_option_arena_reserve, 32 * 1024);
  mi_option_set(mi_option_purge_delay, 100);
  arena = mx_arena_reserve(&mine, 1, -1);
  check(arena != NULL && !arena->is_reserved);
  const mx_slices_t got = take(4), large = take(4);
  mx_arena_want_large(arena, large.index, 2);
  give_back(large);
  mock_fault("uncut");
  mock_fail_next();
  tick_after(101);  // they cannot be unmapped
  mock_heal();
  mock_fault("plain");
  check(waiting() == 0 && mx_bits_count(arena->large, 0, arena->slices) == 2);
  check(mx_bits_count(arena->committed, large.index, 4) == 4 && is_there(large.index, 4));
  mx_slices_t again;
  const mx_slices_request_t request = {4, 4, 1, arena, -1, false, false};
  check(mx_slices_alloc(&mine, &request, &again) && !again.is_zero);
  check(again.index == large.index);
  give_back(got);
  give_back(large);
  tick_after(101);
  check(waiting() == 0 && is_gone(got.index, 4) && is_gone(large.index, 4));
  const size_t left = mx_bits_count(arena->committed, got.index, 4) +
                      mx_bits_count(arena->committed, large.index, 4);
  check(left == (got.index + 4 == large.index || large.index + 4 == got.index ? 0 : 4));
  check(mx_bits_count(arena->large, 0, arena->slices) == 0);
  const mx_slices_t plain = take(3);
  give_back(plain);
  tick_after(101);
  mx_arenas_purge(&mine, true);
  check(is_gone(plain.index, 3) && mx_bits_count(arena->committed, plain.index, 3) == 3);
  // A program that wants nothing to go any more keeps what waits already.
  const mx_slices_t last = take(5), other = take(2);
  give_back(last);
  mi_option_set(mi_option_purge_delay, -1);
  const uint64_t at = next_purge();
  give_back(other);
  check(waiting() == 7 && next_purge() == at && is_there(other.index, 2));
  tick_after(200);
  check(waiting() == 7);
  end();
}

// After a fork what is noted of a slice is made true. What was reserved as a whole is committed for
// good, where the system overcommits.
static void test_settle(void) {
  begin(16, 100);
  const mx_slices_t got = take(2);
  mx_arena_take_back(arena, got.index);
  check(mx_bits_count(arena->committed, got.index, 2) == 2);
  end();
  if (!MX_PIECEWISE) return;
  mi_option_set(mi_option_arena_reserve, 32 * 1024);
  arena = mx_arena_reserve(&mine, 1, -1);
  const mx_slices_t one = take(1);
  const int64_t reserved = mx_load_relaxed(&mx_process_counters.reserved.current);
  mock_fault("uncut");
  mock_fail_next();
  mx_arena_take_back(arena, one.index);
  mock_heal();
  mock_fault("plain");
  check(mx_bits_test(arena->committed, one.index));  // it could not be unmapped
  mx_bits_set(arena->purgeable, one.index, 1);
  mx_arena_take_back(arena, one.index);
  check(!mx_bits_test(arena->committed, one.index) && !mx_bits_test(arena->purgeable, one.index));
  check(mx_load_relaxed(&mx_process_counters.reserved.current) == reserved - (int64_t)MX_SLICE_SIZE);
  check(!mx_arena_is_present(arena, one.start, mx_facts.os_page));
  end();
}

// What is committed beyond a request ends with the arena, whatever lies behind its bitmap.
static void test_end(void) {
  begin(64, 100);
  mx_slices_t most, last;
  const mx_slices_request_t all_but_few = {59, 59, 1, arena, -1, false, false};
  const mx_slices_request_t few = {5, 5, 1, arena, -1, false, false};
  check(mx_slices_alloc(&mine, &all_but_few, &most));
  mx_bits_set(arena->dirty, 0, 64);
  check(mx_slices_alloc(&mine, &few, &last));
  check(most.index + last.index < 64 && mx_bits_count(arena->dirty, 0, 64) == 64);
  check(mx_load_relaxed(&arena->free_slices) == 0);
  check(mx_bits_count(arena->committed, 0, 64) == 64);
  end();
}

// Where nothing may wait what is free is unmapped, up to the end of the arena, whatever lies behind its
// bitmaps; how much is what the system is asked for at once.
static void test_unmap(void) {
  if (!MX_PIECEWISE) return;
  mi_option_set(mi_option_arena_reserve, 32 * 1024);
  mi_option_set(mi_option_purge_delay, -1);
  arena = mx_arena_reserve(&mine, 1, -1);
  check(!arena->is_reserved && arena->slices % 64 == 0);
  mx_slices_t got = take(arena->slices - 8);
  const mx_slices_t used = take(8);
  check(used.index > got.index && used.index + 8 == arena->slices);
  give_back(got);
  mx_arena_unmap_free(&mine, arena);
  check(mx_bits_count(arena->committed, 0, arena->slices) == 8);
  // Of what lies between those in use and others that are free only a part is mapped.
  give_back(take(1));
  const size_t mapped = mx_bits_count(arena->committed, 0, arena->slices);
  check(mapped > 8 && mapped < arena->slices);
  mx_arena_unmap_free(&mine, arena);
  check(mx_bits_count(arena->committed, 0, arena->slices) == 8);
  give_back(used);
  got = take(arena->slices);
  give_back(got);
  mx_bits_set(arena->large, 0, arena->slices);
  mx_bits_set(arena->dirty, 0, arena->slices);
  mx_bits_set(arena->purgeable, 0, arena->slices);
  mx_arena_unmap_free(&mine, arena);
  check(mx_bits_count(arena->free, 0, arena->slices) == arena->slices);
  check(mx_bits_count(arena->committed, 0, arena->slices) == 0);
  check(mx_bits_count(arena->large, 0, arena->slices) == arena->slices);
  end();
}

// What cannot be unmapped of a slice that was mapped in part becomes a whole slice, if the rest of it can
// be mapped.
static void test_parts(bool can_map) {
  if (!MX_PARTS) return;
  mi_option_set(mi_option_arena_reserve, 32 * 1024);
  mi_option_set(mi_option_purge_delay, 100);
  arena = mx_arena_reserve(&mine, 1, -1);
  mx_slices_t got, whole;
  const mx_slices_request_t request = {2, 2, 1, arena, -1, false, true};
  mx_store_relaxed(&mx_os_scarce, true);
  check(mx_slices_alloc(&mine, &request, &got) && mx_slices_alloc(&mine, &request, &whole));
  check(mx_arena_reach(arena, got.start, mx_facts.os_page));
  mx_arena_touch(arena, got.start, mx_facts.os_page);
  bool is_zero;
  check(mx_arena_commit(&mine, arena, whole.index, 2, &is_zero) == MX_COMMIT_DONE);
  mx_arena_touch(arena, whole.start, mx_facts.os_page);
  mock_fault("uncut");
  if (can_map) mock_fail_next();
  else mock_fail_all();
  mx_arena_drop_parts(arena, got.index, 2);
  mx_arena_drop_parts(arena, whole.index, 2);
  mock_heal();
  mock_fault("plain");
  check(mx_bits_test(arena->committed, got.index) == can_map);
  check(mx_arena_is_present(arena, got.start, mx_facts.os_page) == can_map);
  check(!mx_bits_test(arena->committed, got.index + 1));
  check(mx_arena_is_present(arena, whole.start, mx_facts.os_page));
  check(!mx_arena_is_present(arena, whole.start, MX_SLICE_SIZE));
  check(mx_bits_count(arena->committed, whole.index, 2) == 2);
  mx_store_relaxed(&mx_os_scarce, false);
  end();
}

// What a fresh page is refused is tried once more when free slices were unmapped for it.
static void test_first_part(void) {
  if (!MX_PARTS) return;
  mi_option_set(mi_option_arena_reserve, 32 * 1024);
  mi_option_set(mi_option_purge_delay, -1);
  arena = mx_arena_reserve(&mine, 1, -1);
  mx_slices_t got;
  const mx_slices_request_t request = {2, 2, 1, arena, -1, false, true};
  mx_store_relaxed(&mx_os_scarce, true);
  for (int is_waiting = 0; is_waiting < 2; is_waiting++) {
    mx_arena_unmap_free(&mine, arena);
    check(mx_slices_alloc(&mine, &request, &got));
    if (is_waiting) give_back(take(1));
    mock_fail_next();
    check(mx_slices_map_first(&mine, &request, 1, &got) == (is_waiting != 0));
    mock_heal();
  }
  check(mx_arena_is_present(arena, got.start, 1) && got.start[0] == 0);
  check(mx_bits_count(arena->committed, 0, arena->slices) == 0);
  mx_store_relaxed(&mx_os_scarce, false);
  end();
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  mi_option_set(mi_option_max_warnings, 0);
  mi_free(mi_malloc(100));
  if (!mx_os_overcommits() || mx_os_is_scarce()) return 77;
  test_delay(1);
  test_delay(10);
  test_age(true);
  test_age(false);
  test_steps();
  test_used_again();
  test_extremes();
  test_never();
  test_bound(0, 0, FLOOR, BATCH);
  test_bound(80, 0, FLOOR + 80 / 4, BATCH);
  test_bound(0, 25, FLOOR + 25, BATCH);
  test_background();
  test_limit();
  test_least_run();
  if (!MX_SCATTER) test_refaults();
  if (!MX_SCATTER) test_refaults_in_pieces();
  test_large();
  test_end();
  test_unmap();
  test_parts(true);
  test_parts(false);
  test_first_part();
  test_settle();
  mx_store_relaxed(&mx_os_scarce, true);
  test_bound(320, 0, 320 / 32, 4);
  mx_store_relaxed(&mx_os_scarce, false);
  printf("ok\n");
  return 0;
}
