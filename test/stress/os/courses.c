// SPDX-License-Identifier: MIT
// The courses of counts.c: what a program of each kind does, stage by stage.
#include "courses.h"

#include "heap/trim.h"
#include "mimalloc.h"
#include "mock_os.h"

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
    for (size_t i = 0; i < 33; i++) {
      mx_tls_theap->visits++;
      mx_theap_housekeeping(mx_tls_theap, 1);
    }
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

// Threads that are there at once, each with blocks of its own: their theaps are not parked till the
// end.
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
    for (size_t i = 0; i < 50; i++) {
      const size_t size = 32 + 40 * n + i;
      keep(n * 50 + i, mi_heap_zalloc(many[n], size), size);
    }
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
  for (size_t i = 3000; i < 4000; i++) {
    const size_t size = 100 + i % 8000;
    keep(i, mi_heap_malloc(common_heap, size), size);
  }
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
    if (n == 0) {
      mi_subproc_destroy(id);
      memset(places, 0, sizeof(places));
    } else {
      mi_subproc_delete(id);
    }
    say(n == 0 ? "destroyed" : n == 1 ? "deleted" : "deleted again");
    take_all(1);
    idle(200);
  }
  mi_collect(true);
  say("end");
}

static mi_heap_t* mixed_heaps[3];
// The place from which puts_some and takes_some go on.
static void* where_some_are(void) {
  return (void*)(uintptr_t)(1000 + 300 * random_below(&common, 15));
}

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
  else if (what < 42) in_thread(&puts_some, where_some_are());
  else if (what < 44) in_thread(&takes_some, where_some_are());
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

const course_t courses[] = {
    {"small", &small_blocks, "", false},
    {"small, nothing waits", &small_blocks, "MIMALLOC_PURGE_DELAY=0", false},
    {"medium", &medium_blocks, "", false},
    {"medium, no holes", &medium_blocks,
     "MIMALLOC_PURGE_HOLES=0 MIMALLOC_PURGE_DECOMMITS=0", false},
    {"large", &large_blocks, "", false},
    {"large, small arenas", &large_blocks,
     "MIMALLOC_ARENA_RESERVE=32768 MIMALLOC_ARENA_MAX_OBJECT_SIZE=1024", false},
    {"large, large OS pages", &large_blocks, "MIMALLOC_ALLOW_THP=2", false},
    {"large, no large OS pages", &large_blocks,
     "MIMALLOC_ALLOW_THP=0 MIMALLOC_MINIMAL_PURGE_SIZE=256", false},
    {"growing", &growing, "", false},
    {"aligned", &aligned_blocks, "", false},
    {"threads", &threads, "", false},
    {"threads, taken by frees", &threads,
     "MIMALLOC_PAGE_RECLAIM_ON_FREE=1 MIMALLOC_THEAP_RETAIN=2", false},
    {"many threads", &many_threads, "", false},
    {"handed on", &handed_on, "", false},
    {"heaps", &heaps, "", MX_RANDOM_ADDRESS},
    {"used by many", &used_by_many, "", false},
    {"cleared", &cleared, "", false},
    {"huge again", &huge_again, "", false},
    {"rounds", &rounds, "", false},
    {"rounds, uncommitted", &rounds,
     "MIMALLOC_ARENA_EAGER_COMMIT=0 MIMALLOC_PURGE_DELAY=200", false},
    {"holes", &holes, "", false},
    {"arenas", &arenas, "", false},
    {"huge OS pages", &huge_os_pages, "", false},
    {"guarded", &guarded, "MIMALLOC_GUARDED_SAMPLE_RATE=40 MIMALLOC_GUARDED_SAMPLE_SEED=7", true},
    {"empty", &empty_blocks, "", false},
    {"mixed", &mixed, "", false},
    {"mixed, collected often", &mixed,
     "MIMALLOC_GENERIC_COLLECT=50 MIMALLOC_PAGE_FULL_RETAIN=0 MIMALLOC_PAGE_MAX_CANDIDATES=1",
     false},
    {"subprocs", &subprocs, "", true},
    {"mixed, limited", &mixed, "MIMALLOC_MEMORY_LIMIT=30000", false},
    {"mixed, large OS pages", &mixed, "MIMALLOC_ALLOW_LARGE_OS_PAGES=1", false},
    {"mixed, scarce", &mixed, "SCARCE=1", false},
    {"holes, scarce", &holes, "SCARCE=1", false},
    {"mixed, committed as used", &mixed, "ulimit -d 104857600;", false},
    {"large, committed as used", &large_blocks, "ulimit -d 104857600;", false},
    {"mixed, refused", &mixed, "FAIL=7", false},
    {"mixed, torn", &mixed, "FAIL=5 FAULT=torn", false},
    {"medium, half done", &medium_blocks,
     "ulimit -d 104857600; FAIL=3 FAULT=half MIMALLOC_PURGE_DELAY=100", false},
    {"threads, scarce", &threads, "SCARCE=1 FAIL=9", false},
    {"large, uncut", &large_blocks, "FAIL=4 FAULT=uncut", false},
    {"mixed, with zeros", &mixed,
     "MIMALLOC_ZERO_ON_FREE=1 MIMALLOC_PURGE_DELAY=50 MIMALLOC_PAGE_FULL_RETAIN=8", false},
};
const size_t course_count = sizeof(courses) / sizeof(courses[0]);
