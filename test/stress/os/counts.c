// SPDX-License-Identifier: MIT
// What fixed courses of calls cost: what they ask of the system, what is counted, and where their blocks
// lie, to the last page, as counts.txt has it for this build. A decision that no result depends on (which
// slices, how much is carved at once, when a look is worth it) is seen here and nowhere else.
//
//   counts FILE          compares, and says which numbers are others; nothing where the kernel is another
//   counts FILE write    puts those of this build into the file
//
// Who changes a number on purpose writes the file with each build, and sees what else has changed.
//
// Each course is a process of its own, of threads that take turns, on a clock that moves when told and
// with random numbers from a seed; addresses are told from the start of their arena. A line has what was
// counted since the line before (+), and what is there now (=), as far as that has changed.
#include "../../audit.h"
#include "../stress.h"

#include <sys/utsname.h>
#include <sys/wait.h>

#include "heap/transfer.h"
#include "heap/trim.h"
#include "mimalloc.h"
#include "mock_os.h"
#include "os/os.h"

#define PLACES 6000

static block_t* places[PLACES];
static random_t common;

// ---- what is counted -----------------------------------------------------------------------------

#define COUNTS_MOST 128
typedef struct count_s {
  const char* name;
  long long flow, state;
} count_t;
static count_t counts[COUNTS_MOST];
static long long seen[COUNTS_MOST], state_seen[COUNTS_MOST];
static size_t count_count;

// What depends on where addresses are (parts of the page map, of mappings that are cut) is not told
// where that is not known: see place_all.
static bool has_any_place;
static void add(const char* name, long long flow, long long state) {
  if (MX_RANDOM_ADDRESS && state == 0 && strstr(name, "commit") != NULL) return;
  if (has_any_place && state == 0 && (strstr(name, "sys.") != NULL || strstr(name, "_calls") != NULL ||
                                      strcmp(name, "purged") == 0)) {
    return;
  }
  if (has_any_place && strstr(name, "reserved") != NULL) return;
  check(count_count < COUNTS_MOST);
  counts[count_count++] = (count_t){name, flow, state};
}
static void add_state(const char* name, long long state) { add(name, 0, state); }

static void add_asked(void) {
#define ASKED(kind)                                                           \
  add("sys." #kind, (long long)mock_asked(MOCK_##kind).calls, 0);             \
  add("sys." #kind ".kib", (long long)(mock_asked(MOCK_##kind).bytes / 1024), 0);
  MOCK_KINDS(ASKED)
#undef ASKED
}

static void add_counters(void) {
  mx_counters_t sum;
  memset(&sum, 0, sizeof(sum));
  const mx_counters_t* const all[] = {&mx_process_counters, &mx_subproc_main.main_heap.counters,
                                      &mx_subproc_main.counters};
  for (size_t i = 0; i < 3; i++) {
    const long long* const from = (const long long*)(const void*)all[i];
    long long* const to = (long long*)(void*)&sum;
    for (size_t n = 0; n < sizeof(sum) / sizeof(long long); n++) to[n] += from[n];
  }
#define IS_COUNT(name) add(#name, sum.name.total, sum.name.current); add_state(#name ".most", sum.name.peak);
#define IS_COUNTER(name) add(#name, sum.name, 0);
  MX_COUNTERS(IS_COUNT, IS_COUNTER)
#undef IS_COUNT
#undef IS_COUNTER
}

static void add_arenas(void) {
  const mx_arenas_t* const arenas = &mx_subproc_main.arenas;
  long long dirty = 0, committed = 0, large = 0, low = 0, high = 0, apart = 0;
  for (size_t i = 0; i < mx_load_relaxed(&arenas->count); i++) {
    const mx_arena_t* const arena = mx_arena_at(arenas, i);
    if (arena == NULL) continue;
    dirty += (long long)mx_bits_count(arena->dirty, 0, arena->slices);
    committed += (long long)mx_bits_count(arena->committed, 0, arena->slices);
    large += (long long)mx_bits_count(arena->large, 0, arena->slices);
    low += (long long)mx_load_relaxed(&arena->low_hint);
    for (size_t n = 0; n < arena->slices; n++) {
      const bool is_used = !mx_bits_test(arena->free, n);
      const bool was_used = (n > 0 && !mx_bits_test(arena->free, n - 1));
      if (is_used) high = (long long)n;
      apart += (is_used && !was_used);
    }
  }
  add_state("arenas", (long long)mx_load_relaxed(&arenas->count));
  add_state("in_use", (long long)mx_load_relaxed(&arenas->in_use));
  add_state("runs", apart);
  add_state("highest", high);
  add_state("low_hint", low);
  add_state("dirty", dirty);
  add_state("mapped", committed);
  add_state("large", large);
  add_state("purgeable", (long long)mx_load_relaxed(&arenas->purgeable));
  add_state("gone", (long long)mx_load_relaxed(&arenas->gone));
  add_state("keep", (long long)mx_load_relaxed(&arenas->keep));
  const uint64_t at = mx_load_relaxed(&arenas->purge_at);
  add_state("purge_in", at == 0 ? 0 : (long long)(at - mx_os_clock_msecs()));
}

static void add_theap(void) {
  const mx_theap_t* const theap = mx_tls_theap;
  long long current = 0, partial = 0, full = 0, carved = 0, waiting = 0, parked = 0;
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) {
    const mx_page_t* const page = theap->bins.current[bin];
    current += (page != &mx_page_none);
    if (page != &mx_page_none) carved += page->capacity;
    partial += theap->lists.partial_count[bin];
    full += theap->lists.full_count[bin];
    waiting += (long long)mx_transfer_count(bin);
  }
  for (size_t i = 0; i < MX_PARKED_MAX; i++) parked += (mx_subproc_main.parked[i].theap != NULL);
  add("visits", theap->visits, 0);
  add("extended", theap->counted.extends, 0);
  add("reclaimed", theap->counted.reclaims, 0);
  add_state("current", current);
  add_state("carved", carved);
  add_state("partial", partial);
  add_state("full", full);
  add_state("retained", (long long)theap->retained.slices);
  add_state("transfer", waiting);
  add_state("parked", parked);
}

// Blocks that were found to be zero; how far one lies from the one before, all together; and what they
// hold beyond what was asked for.
static long long zeros;
static void add_places(void) {
  add("zeros", zeros, 0);
  uint64_t far = 0, more = 0, last = 0, live = 0, apart = 0;
  for (size_t i = 0; i < PLACES; i++) {
    if (places[i] == NULL) continue;
    const mx_page_t* const page = mx_pagemap_find(places[i]);
    live++;
    more += mi_usable_size(places[i]) - places[i]->size;
    apart += (page->arena == NULL);
    if (page->arena == NULL) continue;
    const uint64_t at = (uint64_t)((const uint8_t*)places[i] - page->arena->start);
    far += (at > last ? at - last : last - at);
    last = at;
  }
  add_state("live", (long long)live);
  add_state("far", (long long)far);
  add_state("more", (long long)more);
  add_state("apart", (long long)apart);
}

static const char* course_name;

static void say(const char* stage) {
  count_count = 0;
  add_asked();
  add_counters();
  add_arenas();
  add_theap();
  add_places();
  printf("%s/%s:", course_name, stage);
  for (size_t i = 0; i < count_count; i++) {
    const long long flow = counts[i].flow - seen[i];
    seen[i] = counts[i].flow;
    if (flow != 0) printf(" %s+%lld", counts[i].name, flow);
    if (counts[i].state != state_seen[i]) printf(" %s=%lld", counts[i].name, counts[i].state);
    state_seen[i] = counts[i].state;
  }
  printf("\n");
}

// ---- courses -------------------------------------------------------------------------------------

static void keep(size_t i, void* p, size_t size) {
  if (p == NULL) return;
  block_sign((block_t*)p, size, i * 77 + size);
  places[i] = (block_t*)p;
}


static void put(size_t i, size_t size) {
  static const char nothing[16];
  char* const p = (char*)mi_malloc(size);
  if (p != NULL && size >= 64) {
    zeros += (memcmp(p + 40, nothing, 16) == 0);
    memset(p + 40, 1, 16);
  }
  keep(i, p, size);
}

static void take(size_t i) {
  if (places[i] == NULL) return;
  block_check(places[i]);
  mi_free(places[i]);
  places[i] = NULL;
}

static void take_all(size_t step) {
  for (size_t i = 0; i < PLACES; i += step) take(i);
}

static void resize(size_t i, size_t size) {
  block_check(places[i]);
  keep(i, mi_realloc(places[i], size), size);
}

// So much time, in which the thread is seen.
static void idle(uint64_t msecs) {
  for (uint64_t n = 0; n < 20; n++) {
    mock_sleep(msecs / 20);
    for (size_t i = 0; i < 33; i++) mx_theap_housekeeping((mx_tls_theap->visits++, mx_tls_theap), 1);
  }
}

static void* in_thread(void* (*body)(void*), void* arg) {
  void* result = NULL;
  pthread_t thread;
  check(pthread_create(&thread, NULL, body, arg) == 0);
  pthread_join(thread, &result);
  return result;
}

static void run_of(size_t least, size_t step, size_t most, size_t each) {
  size_t i = 0;
  for (size_t size = least; size <= most; size += step) {
    for (size_t n = 0; n < each; n++) put(i++ % PLACES, size);
  }
}

static void small_blocks(void) {
  run_of(32, 16, 1024, 80);
  say("filled");
  take_all(2);
  run_of(32, 160, 1024, 0);
  for (size_t i = 0; i < PLACES; i += 2) put(i, 32 + i % 700);
  say("mixed");
  take_all(3);
  mi_collect(false);
  say("collected");
  take_all(1);
  say("freed");
  idle(3000);
  say("idle");
  mi_collect(true);
  say("forced");
}

static void medium_blocks(void) {
  run_of(1040, 1000, 70000, 20);
  say("filled");
  for (size_t i = 0; i < PLACES; i++) {
    if (i % 7 != 0) take(i);
  }
  say("sparse");
  mi_collect(false);
  idle(2000);
  say("idle");
  for (size_t i = 0; i < PLACES; i += 5) {
    if (places[i] == NULL) put(i, 2000 + 37 * i % 30000);
  }
  say("again");
  mi_collect(true);
  say("forced");
  take_all(1);
  idle(3000);
  say("freed");
}

static void large_blocks(void) {
  run_of(70000, 30000, 1500000, 3);
  say("filled");
  take_all(2);
  for (size_t i = 0; i < 100; i += 2) put(i, 600000 + 5000 * i);
  say("mixed");
  idle(1500);
  say("idle");
  take_all(1);
  say("freed");
  put(0, 40 << 20);
  say("moved");
  put(1, 3 << 20);
  resize(1, 7 << 20);
  resize(0, 90 << 20);
  resize(0, 10 << 20);
  say("resized");
  take_all(1);
  idle(3000);
  say("end");
}

static void growing(void) {
  for (size_t i = 0; i < 12; i++) put(i, 100);
  for (size_t size = 100; size < (30 << 20); size += size / 2) resize(size % 12, size + 50);
  say("grown");
  for (size_t size = 20 << 20; size > 100; size -= size / 3) resize(size % 12, size);
  say("shrunk");
  for (size_t i = 20; i < 400; i++) {
    put(i, 40 + i);
    resize(i, 60 + 3 * i);
    if (i % 2 == 0) resize(i, 32 + i / 2);
  }
  say("many");
  take_all(1);
  say("freed");
}

static void aligned_blocks(void) {
  size_t i = 0;
  for (size_t align = 16; align <= (8 << 20); align *= 4) {
    for (size_t size = 40; size < 3000000; size *= 7, i++) {
      keep(i, mi_malloc_aligned(size, align), size);
      check((uintptr_t)places[i] % align == 0);
      i++;
      keep(i, mi_zalloc_aligned_at(size, align, 32), size);
    }
  }
  say("filled");
  for (size_t n = 0; n < i; n += 3) {
    if (places[n] == NULL) continue;  // with an offset the alignment has a bound
    block_check(places[n]);
    const size_t more = places[n]->size * 2;
    keep(n, mi_realloc_aligned(places[n], more, 256), more);
  }
  say("resized");
  take_all(1);
  say("freed");
}

static void* puts_some(void* arg) {
  const size_t from = (size_t)(uintptr_t)arg;
  for (size_t i = 0; i < 300; i++) put(from + i, 40 + 13 * (i % 90) + (i % 40 == 0 ? 20000 : 0));
  for (size_t i = 0; i < 300; i += 2) take(from + i);
  return NULL;
}
static void* takes_some(void* arg) {
  const size_t from = (size_t)(uintptr_t)arg;
  for (size_t i = 0; i < 300; i += 3) take(from + i);
  return NULL;
}

static void threads(void) {
  mi_free(mi_malloc(10));
  for (uintptr_t n = 0; n < 12; n++) in_thread(&puts_some, (void*)(n * 300));
  say("ended");
  for (size_t i = 0; i < 3000; i += 5) take(i);
  say("freed");
  for (uintptr_t n = 0; n < 12; n++) in_thread(&takes_some, (void*)(n * 300));
  say("freed elsewhere");
  idle(2500);
  for (uintptr_t n = 12; n < 18; n++) in_thread(&puts_some, (void*)(n * 300));
  say("again");
  mi_collect(true);
  say("collected");
  take_all(1);
  idle(4000);
  mi_collect(true);
  say("end");
}

// Threads that are there at once, each with blocks of its own: their theaps are not parked till the end.
static pthread_barrier_t all_there, may_end;
static void* puts_and_waits(void* arg) {
  puts_some(arg);
  pthread_barrier_wait(&all_there);
  pthread_barrier_wait(&may_end);
  return NULL;
}

static void many_threads(void) {
  enum { MANY = 14 };
  pthread_t ids[MANY];
  mi_free(mi_malloc(10));
  pthread_barrier_init(&all_there, NULL, 2);
  pthread_barrier_init(&may_end, NULL, MANY + 1);
  for (uintptr_t n = 0; n < MANY; n++) {
    pthread_create(&ids[n], NULL, &puts_and_waits, (void*)(n * 300));
    pthread_barrier_wait(&all_there);
  }
  say("there");
  take_all(4);
  say("freed");
  // They end in any order, so that what is parked is any of them.
  pthread_barrier_wait(&may_end);
  for (size_t n = 0; n < MANY; n++) pthread_join(ids[n], NULL);
}

static void handed_on(void) {
  for (size_t size = 100; size <= 40000; size *= 3) {
    for (int n = 0; n < 8; n++) {
      for (size_t i = 0; i < 300; i++) put(i, size);
      in_thread(&takes_some, (void*)0);
      in_thread(&takes_some, (void*)1);
      take_all(1);
    }
    say(size == 100 ? "small" : size < 2000 ? "middle" : "large");
    mock_sleep(300);
  }
  idle(3000);
  say("idle");
}

static void some_heaps(bool ends_all) {
  for (int n = 0; n < 30; n++) {
    mi_heap_t* const heap = mi_heap_new();
    for (size_t i = 0; i < 100; i++) {
      const size_t size = 40 + 17 * i + (i % 50 == 0 ? 100000 : 0);
      keep(i, mi_heap_malloc(heap, size), size);
    }
    if (ends_all) {
      mi_heap_destroy(heap);
      memset(places, 0, sizeof(places));
    } else {
      take_all(2);
      mi_heap_delete(heap);
      take_all(3);
    }
    if (n == 0 || n == 29) say(n == 0 ? "first" : "last");
    if (!ends_all) take_all(1);
  }
}
static void heaps(void) {
  some_heaps(true);
  some_heaps(false);
  mi_heap_t* many[20];
  for (size_t n = 0; n < 20; n++) {
    many[n] = mi_heap_new();
    for (size_t i = 0; i < 50; i++) keep(n * 50 + i, mi_heap_zalloc(many[n], 32 + 40 * n + i), 32 + 40 * n + i);
  }
  say("many");
  for (size_t n = 0; n < 20; n += 2) mi_heap_delete(many[n]);
  say("deleted");
  take_all(1);
  for (size_t n = 1; n < 20; n += 2) mi_heap_destroy(many[n]);
  mi_collect(true);
  say("end");
}

// A heap that several threads use, one after the other, which leave their pages to it.
static mi_heap_t* common_heap;
static void* puts_in_heap(void* arg) {
  const size_t from = (size_t)(uintptr_t)arg;
  for (size_t i = from; i < from + 200; i++) {
    const size_t size = 100 + 400 * (i % 20);
    keep(i, mi_heap_malloc(common_heap, size), size);
  }
  for (size_t i = from; i < from + 200; i += 3) take(i);
  return NULL;
}
static void used_by_many(void) {
  common_heap = mi_heap_new();
  for (uintptr_t n = 0; n < 12; n++) in_thread(&puts_in_heap, (void*)(n * 200));
  say("ended");
  for (size_t i = 3000; i < 4000; i++) keep(i, mi_heap_malloc(common_heap, 100 + i % 8000), 100 + i % 8000);
  say("used");
  take_all(2);
  for (uintptr_t n = 0; n < 12; n++) in_thread(&puts_in_heap, (void*)(n * 200 + 100));
  say("again");
  mi_heap_delete(common_heap);
  for (size_t i = 5000; i < 5500; i++) put(i, 100 + i % 8000);
  say("deleted");
  take_all(1);
  mi_collect(true);
  say("end");
}

// Huge blocks of all sizes, which come again and again, some soon and some late.
static void huge_again(void) {
  for (int n = 0; n < 8; n++) {
    for (size_t i = 0; i < 60; i++) put(i, (600 << 10) + (i * (37 + (size_t)n) % 41) * (60 << 10));
    for (size_t i = 0; i < 60; i += 1 + (size_t)n % 3) take(i);
    mock_sleep(n % 2 == 0 ? 30 : 700);
    for (size_t i = 0; i < 60; i++) {
      if (places[i] == NULL) put(i, (550 << 10) + (i % 7) * (90 << 10));
    }
    take_all(1);
    if (n % 4 == 3) say(n == 3 ? "first" : "second");
    if (n == 5) mi_collect(true);
  }
  idle(3000);
  say("end");
}

// What hardened builds clear of freed blocks, in a share of the time.
static void cleared(void) {
  for (int n = 0; n < 12; n++) {
    run_of(3000, 500, 9000, 60);
    take_all(1);
    mock_sleep(n % 3 == 0 ? 0 : (uint64_t)(7 * n));
    if (n % 4 == 3) say(n == 3 ? "first" : n == 7 ? "second" : "third");
  }
}

// The same again and again: what was purged too early is seen, and stays the next time.
static void rounds(void) {
  for (int n = 0; n < 6; n++) {
    run_of(3000, 3000, 30000, 80);
    for (size_t i = 1000; i < 1020; i++) put(i, 400000);
    say("busy");
    take_all(1);
    idle(400 << n);
    say("idle");
  }
  idle(60000);
  say("end");
}

static void holes(void) {
  run_of(200, 300, 5000, 300);
  for (size_t i = 0; i < PLACES; i++) {
    if (i % 40 != 0) take(i);
  }
  say("sparse");
  bool has_changed = false;
  mx_subproc_make_holes(&mx_subproc_main, true, &has_changed);
  mx_subproc_make_holes(&mx_subproc_main, true, &has_changed);
  say("first");
  mi_collect(true);
  say("forced");
  run_of(200, 300, 5000, 100);
  say("filled");
  take_all(1);
  mi_collect(true);
  say("end");
}

static void arenas(void) {
  mi_arena_id_t id = NULL;
  check(mi_reserve_os_memory_ex(40 << 20, false, false, true, &id) == 0);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  say("reserved");
  for (size_t i = 0; i < 3000; i++) keep(i, mi_heap_malloc(heap, 40 + i % 20000), 40 + i % 20000);
  say("filled");
  take_all(2);
  mi_heap_collect(heap, false);
  idle(2000);
  say("half");
  mi_heap_destroy(heap);
  memset(places, 0, sizeof(places));
  say("destroyed");
  check(mi_reserve_os_memory_ex(64 << 20, true, false, false, NULL) == 0);
  for (size_t i = 0; i < 300; i++) put(i, 300000);
  say("committed");
  take_all(1);
  idle(3000);
  say("end");
}

static void huge_os_pages(void) {
  mock_large(2, 10, false);
  check(mi_reserve_huge_os_pages_at(1, 0, 1000) == 0 || MX_SECURE > 0);
  say("reserved");
  run_of(500, 900, 30000, 30);
  say("filled");
  take_all(1);
  mi_collect(true);
  say("freed");
}

static void guarded(void) {
  run_of(40, 24, 3000, 20);
  say("filled");
  take_all(1);
  say("freed");
  mi_theap_guarded_set_sample_rate(mi_theap_get_default(), 11, 5);
  mi_theap_guarded_set_size_bound(mi_theap_get_default(), 100, 900);
  run_of(40, 24, 3000, 20);
  say("of some sizes");
  take_all(1);
  say("freed again");
}

// Blocks of no bytes, which lie in slices of their own in hardened builds.
static void empty_blocks(void) {
  static void* empty[9000];
  for (int n = 0; n < 3; n++) {
    for (size_t i = 0; i < 9000; i++) {
      if (empty[i] == NULL) empty[i] = (i % 50 == 0 ? mi_malloc_aligned(0, 4096) : mi_malloc(0));
    }
    say(n == 0 ? "first" : n == 1 ? "second" : "third");
    for (size_t i = 0; i < 9000; i += 2 + (size_t)n) {
      mi_free(empty[i]);
      empty[i] = NULL;
    }
  }
  for (size_t i = 0; i < 9000; i++) mi_free(empty[i]);
  say("freed");
}

// Sub-processes with blocks of their own; what one leaves is another's.
static void* is_elsewhere(void* arg) {
  mi_subproc_add_current_thread(*(mi_subproc_id_t*)arg);
  for (size_t i = 0; i < 500; i++) put(i, 100 + 31 * i);
  for (size_t i = 0; i < 500; i += 2) take(i);
  mi_heap_t* const heap = mi_heap_new();
  for (size_t i = 500; i < 600; i++) keep(i, mi_heap_malloc(heap, 5000), 5000);
  mi_heap_delete(heap);
  return NULL;
}
static void subprocs(void) {
  mi_free(mi_malloc(10));
  for (int n = 0; n < 3; n++) {
    mi_subproc_id_t id = mi_subproc_new();
    in_thread(&is_elsewhere, &id);
    if (n == 2) take_all(3);
    if (n == 0) mi_subproc_destroy(id);
    else mi_subproc_delete(id);
    if (n == 0) memset(places, 0, sizeof(places));
    say(n == 0 ? "destroyed" : n == 1 ? "deleted" : "deleted again");
    take_all(1);
    idle(200);
  }
  mi_collect(true);
  say("end");
}

static mi_heap_t* mixed_heaps[3];
static void act(void) {
  const size_t what = random_below(&common, 1000);
  const size_t i = random_below(&common, PLACES / 6);
  const size_t size = 32 + random_size(&common);
  mi_heap_t** const heap = &mixed_heaps[what % 3];
  if (what < 2) mi_collect(what == 0);
  else if (what < 5 && *heap == NULL) *heap = mi_heap_new();
  else if (what < 5) {
    mi_heap_delete(*heap);
    *heap = NULL;
  } else if (what < 40) mock_sleep(random_below(&common, 300));
  else if (what < 42) in_thread(&puts_some, (void*)(uintptr_t)(1000 + 300 * random_below(&common, 15)));
  else if (what < 44) in_thread(&takes_some, (void*)(uintptr_t)(1000 + 300 * random_below(&common, 15)));
  else if (places[i] != NULL && what < 200) resize(i, size);
  else if (places[i] != NULL) take(i);
  else if (what < 300) keep(i, mi_calloc(1, size), size);
  else if (what < 350) keep(i, mi_malloc_aligned(size, (size_t)16 << what % 13), size);
  else if (what < 500 && *heap != NULL) keep(i, mi_heap_malloc(*heap, size), size);
  else put(i, size);
}

static void mixed(void) {
  mi_free(mi_malloc(10));
  for (int stage = 0; stage < 3; stage++) {
    for (int n = 0; n < 5000; n++) act();
    say(stage == 0 ? "first" : stage == 1 ? "second" : "third");
    check(audit(&mx_subproc_main) == 0);
  }
  take_all(1);
  idle(3000);
  say("freed");
  mi_collect(true);
  say("end");
}

static const struct {
  const char* name;
  void (*run)(void);
  const char* where;  // what the shell is told before
} courses[] = {
    {"small", &small_blocks, ""},
    {"small, nothing waits", &small_blocks, "MIMALLOC_PURGE_DELAY=0"},
    {"medium", &medium_blocks, ""},
    {"medium, no holes", &medium_blocks, "MIMALLOC_PURGE_HOLES=0 MIMALLOC_PURGE_DECOMMITS=0"},
    {"large", &large_blocks, ""},
    {"large, small arenas", &large_blocks,
     "MIMALLOC_ARENA_RESERVE=32768 MIMALLOC_ARENA_MAX_OBJECT_SIZE=1024"},
    {"large, large OS pages", &large_blocks, "MIMALLOC_ALLOW_THP=2"},
    {"large, no large OS pages", &large_blocks, "MIMALLOC_ALLOW_THP=0 MIMALLOC_MINIMAL_PURGE_SIZE=256"},
    {"growing", &growing, ""},
    {"aligned", &aligned_blocks, ""},
    {"threads", &threads, ""},
    {"threads, taken by frees", &threads, "MIMALLOC_PAGE_RECLAIM_ON_FREE=1 MIMALLOC_THEAP_RETAIN=2"},
    {"many threads", &many_threads, ""},
    {"handed on", &handed_on, ""},
    {"heaps", &heaps, ""},
    {"used by many", &used_by_many, ""},
    {"cleared", &cleared, ""},
    {"huge again", &huge_again, ""},
    {"rounds", &rounds, ""},
    {"rounds, uncommitted", &rounds, "MIMALLOC_ARENA_EAGER_COMMIT=0 MIMALLOC_PURGE_DELAY=200"},
    {"holes", &holes, ""},
    {"arenas", &arenas, ""},
    {"huge OS pages", &huge_os_pages, ""},
    {"guarded", &guarded, "MIMALLOC_GUARDED_SAMPLE_RATE=40 MIMALLOC_GUARDED_SAMPLE_SEED=7"},
    {"empty", &empty_blocks, ""},
    {"mixed", &mixed, ""},
    {"mixed, collected often", &mixed,
     "MIMALLOC_GENERIC_COLLECT=50 MIMALLOC_PAGE_FULL_RETAIN=0 MIMALLOC_PAGE_MAX_CANDIDATES=1"},
    {"subprocs", &subprocs, ""},
    {"mixed, limited", &mixed, "MIMALLOC_MEMORY_LIMIT=30000"},
    {"mixed, large OS pages", &mixed, "MIMALLOC_ALLOW_LARGE_OS_PAGES=1"},
    {"mixed, scarce", &mixed, "SCARCE=1"},
    {"holes, scarce", &holes, "SCARCE=1"},
    {"mixed, committed as used", &mixed, "ulimit -d 104857600;"},
    {"large, committed as used", &large_blocks, "ulimit -d 104857600;"},
    {"mixed, refused", &mixed, "FAIL=7"},
    {"mixed, torn", &mixed, "FAIL=5 FAULT=torn"},
    {"medium, half done", &medium_blocks,
     "ulimit -d 104857600; FAIL=3 FAULT=half MIMALLOC_PURGE_DELAY=100"},
    {"threads, scarce", &threads, "SCARCE=1 FAIL=9"},
    {"large, uncut", &large_blocks, "FAIL=4 FAULT=uncut"},
    {"mixed, with zeros", &mixed,
     "MIMALLOC_ZERO_ON_FREE=1 MIMALLOC_PURGE_DELAY=50 MIMALLOC_PAGE_FULL_RETAIN=8"},
};
#define COURSES (sizeof(courses) / sizeof(courses[0]))

// ---- comparing -----------------------------------------------------------------------------------

static const char* build_name(void) {
  if (MX_TRACK != 0 || !MX_64BIT || MX_OMIT_MITIGATIONS != 0) return NULL;
  if (MX_DEBUG != 0) return NULL;
  return MX_SECURE == 0 ? "release" : MX_SECURE == 4 ? "secure" : NULL;
}

// Where addresses begin depends on the stack and the code (src/mem/vmem.c): here always at the same
// multiple of what arenas, large OS pages and parts of the page map are aligned to.
#define PLACED (5 * MX_SLICE_SIZE)

static uintptr_t next_place(mx_zone_t zone) {
  return (uintptr_t)mx_vmem_place(zone, MX_SLICE_SIZE, MX_SLICE_SIZE);
}

// Of the near ones, with so much more of the stack.
static __attribute__((noinline)) uintptr_t place_near_from(size_t depth) {
  volatile char stack[16 * depth + 16];
  stack[0] = 0;
  uintptr_t at = next_place(MX_ZONE_NEAR);
  const unsigned bits = mx_bit_high(at) + 1;
  mx_vmem_open_near(bits, bits + (stack[0] != 0));
  at = next_place(MX_ZONE_NEAR);
  mx_vmem_placed_is_free(MX_ZONE_NEAR, (void*)at, MX_SLICE_SIZE);
  return at;
}

static void place_all(void) {
  if (MX_RANDOM_ADDRESS) return;  // by random numbers, of which these are known
  size_t depth = 0;
  uintptr_t at = 0;
  // Each takes two units.
  while (place_near_from(depth) % (2 * MX_NEAR_UNIT) != PLACED) check(++depth < 80000);
  int more = 8;
  while (next_place(MX_ZONE_NEAR) % MX_GIB != PLACED + 2 * MX_NEAR_UNIT) check(--more > 0);
  for (more = 16384; next_place(MX_ZONE_FAR) % MX_GIB != PLACED;) check(--more >= 0);
  for (more = 100; at / MX_GIB % 64 != 1; more--) {
    check(more > 0);
    at = (uintptr_t)mx_vmem_place(MX_ZONE_FAR, MX_GIB, MX_SLICE_SIZE);
  }
}

static int child(size_t n) {
  course_name = courses[n].name;
  has_any_place = (courses[n].run == &guarded || courses[n].run == &subprocs ||
                   (MX_RANDOM_ADDRESS && courses[n].run == &heaps));
  common = random_of(n);
  mock_seed(n + 1);
  mock_fill(1, false);
  mock_large(3, 1, false);
  mi_option_set(mi_option_max_warnings, 0);
  place_all();
  mock_fault(getenv("FAULT"));
  if (getenv("FAIL") != NULL) mock_fail_every(atol(getenv("FAIL")));
  if (getenv("SCARCE") != NULL) mx_store_relaxed(&mx_os_scarce, true);  // after the start has asked
  mi_free(mi_malloc(1));
  if (mx_facts.os_page != 4096) return 77;
  say("begin");
  courses[n].run();
  return 0;
}

static char text[1 << 20];

// What else than the library decides what is counted.
static size_t say_conditions(void) {
  struct utsname system;
  uname(&system);
  const char* const dot = strchr(system.release, '.');
  const size_t length = (size_t)(dot - system.release) + 1 + strspn(dot + 1, "0123456789");
  return (size_t)snprintf(text, sizeof(text), "%s conditions: %.*s\n", build_name(), (int)length,
                          system.release);
}

// What all courses print, each line with the build's name in front.
static bool run_all(const char* self) {
  size_t length = say_conditions();
  for (size_t n = 0; n < COURSES; n++) {
    char command[700], line[8000];
    const char* const where = courses[n].where;
    if (MX_RANDOM_ADDRESS && strstr(where, "FAIL=") != NULL) continue;  // which calls is not known
    // Variables hold for the program that follows, limits for all that do.
    snprintf(command, sizeof(command), "%s MIMALLOC_BACKGROUND_PURGE=0 '%s' course %zu", where, self, n);
    FILE* const f = popen(command, "r");
    check(f != NULL);
    while (fgets(line, sizeof(line), f) != NULL) {
      length += (size_t)snprintf(text + length, sizeof(text) - length, "%s %s", build_name(), line);
      check(length < sizeof(text));
    }
    const int status = pclose(f);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return false;
    if (status != 0) fail("failed: %s", command);
  }
  return true;
}

static bool is_of_build(const char* line) {
  const size_t length = strlen(build_name());
  return strncmp(line, build_name(), length) == 0 && line[length] == ' ';
}

// Which words of two lines are others.
static void say_difference(const char* was, const char* is) {
  printf("%.*s\n", (int)(strchr(is, ':') - is), is);
  const char* const both[] = {was, is};
  for (int n = 0; n < 2; n++) {
    char word[200];
    printf(n == 0 ? "  was:" : "  is: ");
    for (const char* at = strchr(both[n], ':'); *at != 0 && *at != '\n'; at += strcspn(at, " \n")) {
      at += strspn(at, ": ");
      const int length = snprintf(word, sizeof(word), " %.*s", (int)strcspn(at, " \n"), at);
      const char* found = strstr(both[1 - n], word);
      while (found != NULL && strchr(" \n", found[length]) == NULL) found = strstr(found + 1, word);
      if (found == NULL) printf("%s", word);
    }
    printf("\n");
  }
}

static int compare(const char* path) {
  static char line[8000];
  int others = 0;
  const char* is = text;
  FILE* const f = fopen(path, "r");
  check(f != NULL);
  while (fgets(line, sizeof(line), f) != NULL) {
    if (!is_of_build(line)) continue;
    const size_t length = strcspn(is, "\n") + 1;
    if (is == text && strncmp(line, is, length) != 0) return 77;  // there is another kernel
    if (*is == 0 || (strncmp(line, is, length) != 0 && others++ < 20)) say_difference(line, is);
    if (*is != 0) is += length;
  }
  fclose(f);
  fflush(stdout);
  if (*is != 0) fail("more lines than %s has for this build", path);
  if (others > 0) fail("%d lines of %s are others; on purpose: `counts FILE write`", others, path);
  return 0;
}

static void write_file(const char* path) {
  static char rest[1 << 22], line[8000];
  size_t length = 0;
  FILE* f = fopen(path, "r");
  while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
    if (!is_of_build(line)) length += (size_t)snprintf(rest + length, sizeof(rest) - length, "%s", line);
  }
  if (f != NULL) fclose(f);
  f = fopen(path, "w");
  check(f != NULL);
  fprintf(f, "%s%s", rest, text);
  fclose(f);
}

int main(int argc, char** argv) {
  check(argc > 1);
  if (strcmp(argv[1], "course") == 0) return child((size_t)atoi(argv[2]));
  if (build_name() == NULL || !mx_os_overcommits() || mx_os_is_scarce()) return 77;
  if (!run_all(argv[0])) return 77;
  if (argc <= 2) return compare(argv[1]);
  write_file(argv[1]);
  return 0;
}
