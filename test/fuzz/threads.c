// SPDX-License-Identifier: MIT
// A fuzz target: each input is a program of calls for three threads next to a model that knows
// every live block, its heap and its contents. Blocks and heaps go from thread to thread, threads end
// and others take over what they had, any of them forks, changes options, purges, takes profiles.
//
// The input's first byte says how they run: in turn, one call after another in an order that the
// input gives, so that the same input does the same each time; or all at once, each its own third.
//
// Locks: `shared_lock` guards the blocks that change hands; a thread that touches a block of a
// first-class heap holds `heaps_lock` for reading, one that makes or ends a heap for writing. Blocks
// of the main heap need none.
#include <errno.h>
#include <mimalloc.h>
#include <mimalloc-prof.h>
#include <mimalloc-stats.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"

#define ACTORS 3
#define SLOTS 48
#define SHARED 24
#define HEAPS 4
#define HEAPS_EVER 256
#define THREADS_EVER 24  // of one actor
#define FORKS_MAX 3
#define HELD_MAX ((size_t)24 << 20)
#define ARENA_SIZE ((size_t)64 << 20)

typedef struct block {
  unsigned char* p;
  size_t size;
  int heap;  // in fates[], 0 for the main heap
  unsigned char mark;
} block_t;

typedef enum fate { FREE_NUMBER, LIVE, DELETED, DESTROYED } fate_t;

typedef struct input {
  const uint8_t* at;
  const uint8_t* end;
} input_t;

typedef struct actor {
  block_t blocks[SLOTS];
  size_t held;
  unsigned char mark;
  bool is_last;     // its thread may not be replaced
  input_t in;
  sem_t go, done;   // in turn: one call each
  pthread_t threads[THREADS_EVER];
  int thread_count, joined_count;
} actor_t;

static actor_t actors[ACTORS];
static block_t shared[SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t heaps_lock = PTHREAD_RWLOCK_INITIALIZER;
static mi_heap_t* heaps[HEAPS];
static int heap_numbers[HEAPS];
static fate_t fates[HEAPS_EVER];
static int heaps_ever;
static mi_arena_id_t arena;
static bool in_turn;
static bool is_child;
static int forks_left;

// ---- input -------------------------------------------------------------------------------------

static uint8_t byte(input_t* in) { return in->at < in->end ? *in->at++ : 0; }

static size_t size_of(input_t* in) {
  const uint8_t kind = byte(in);
  const size_t fine = byte(in);
  if (kind < 128) return fine;
  if (kind < 240) return ((size_t)1 << (5 + kind % 14)) + fine - (kind % 2) * 32;
  return fine << (kind < 250 ? 11 : 14);
}

// ---- contents ----------------------------------------------------------------------------------

static size_t step(size_t i, size_t size) {
  return i < 200 || i + 200 > size ? 1 : (i + 2048 + 200 < size ? 2048 : 64);
}

static unsigned char value(unsigned char mark, size_t i) {
  return (unsigned char)(mark + i * 37 + (i >> 8));
}

static void check(const block_t* b, const unsigned char* p, size_t size) {
  for (size_t i = 0; i < size; i += step(i, b->size)) REQUIRE(p[i] == value(b->mark, i));
}

// ---- blocks ------------------------------------------------------------------------------------

static void lock_heaps(int heap) {
  if (heap != 0 && !is_child) pthread_rwlock_rdlock(&heaps_lock);
}

static void unlock_heaps(int heap) {
  if (heap != 0 && !is_child) pthread_rwlock_unlock(&heaps_lock);
}

// A block whose heap was destroyed is no more.
static bool is_gone(const block_t* b) {
  return b->p != NULL && b->heap != 0 && fates[b->heap] == DESTROYED;
}

static void forget(actor_t* a, block_t* b) {
  a->held -= b->size;
  memset(b, 0, sizeof(*b));
}

static void enter(actor_t* a, block_t* b, void* p, size_t size, size_t align, int heap, bool zero) {
  REQUIRE(p != NULL && ((uintptr_t)p & (align - 1)) == 0);
  REQUIRE(mi_usable_size(p) >= size);
  *b = (block_t){(unsigned char*)p, size, heap, a->mark += 5};
  for (size_t i = 0; i < size; i += step(i, size)) {
    if (zero) REQUIRE(b->p[i] == 0);
    b->p[i] = value(b->mark, i);
  }
  a->held += size;
}

static void release(actor_t* a, block_t* b) {
  if (b->p == NULL) return;
  const int heap = b->heap;
  lock_heaps(heap);
  if (!is_gone(b)) {
    check(b, b->p, b->size);
    mi_free(b->p);
  }
  forget(a, b);
  unlock_heaps(heap);
}

static void call_new(actor_t* a, block_t* b, int kind) {
  release(a, b);
  const size_t size = size_of(&a->in);
  if (a->held + size > HELD_MAX) return;
  const size_t align = (size_t)1 << (kind < 3 ? 3 : byte(&a->in) % 14);
  const int place = (kind % 2 == 0 ? -1 : byte(&a->in) % HEAPS);
  lock_heaps(place + 1);
  mi_heap_t* const heap = (place < 0 ? NULL : heaps[place]);
  const int number = (heap == NULL ? 0 : heap_numbers[place]);
  void* p;
  bool zero = false;
  if (heap == NULL) {
    switch (kind / 2) {
      case 0: p = mi_malloc(size); break;
      case 1: p = mi_calloc(1, size), zero = true; break;
      case 2: p = mi_malloc_aligned(size, align); break;
      default: p = mi_zalloc_aligned(size, align), zero = true;
    }
  } else {
    switch (kind / 2) {
      case 0: p = mi_heap_malloc(heap, size); break;
      case 1: p = mi_heap_zalloc(heap, size), zero = true; break;
      case 2: p = mi_heap_malloc_aligned(heap, size, align); break;
      default: p = mi_heap_zalloc_aligned(heap, size, align), zero = true;
    }
  }
  // An exclusive arena may be full.
  if (p != NULL || heap == NULL) enter(a, b, p, size, kind < 4 ? 1 : align, number, zero);
  unlock_heaps(place + 1);
}

// In place or elsewhere, into the main heap or, if it has one, the block's own.
static void call_resize(actor_t* a, block_t* b, int kind) {
  const size_t size = size_of(&a->in);
  if (b->p == NULL || a->held + size > HELD_MAX) return;
  block_t old = *b;
  lock_heaps(old.heap);
  if (is_gone(b)) {
    forget(a, b);
    unlock_heaps(old.heap);
    return;
  }
  int number = 0;
  mi_heap_t* heap = NULL;
  for (int i = 0; old.heap != 0 && i < HEAPS; i++) {
    if (heaps[i] != NULL && heap_numbers[i] == old.heap) heap = heaps[i];
  }
  if (kind == 0 && heap != NULL) number = old.heap;
  void* const q = (number == 0 ? mi_realloc(old.p, size) : mi_heap_realloc(heap, old.p, size));
  if (q != NULL) {
    check(&old, (unsigned char*)q, old.size < size ? old.size : size);
    forget(a, b);
    enter(a, b, q, size, 1, number, false);
  } else {
    REQUIRE(number != 0);
    check(&old, old.p, old.size);
  }
  unlock_heaps(old.heap);
}

// ---- blocks that change hands ------------------------------------------------------------------

static void swap_shared(actor_t* a, block_t* b, int where) {
  if (!is_child) pthread_mutex_lock(&shared_lock);
  const block_t other = shared[where];
  shared[where] = *b;
  a->held = a->held - b->size + other.size;
  *b = other;
  if (!is_child) pthread_mutex_unlock(&shared_lock);
}

static void free_shared(actor_t* a, int where) {
  block_t taken;
  memset(&taken, 0, sizeof(taken));
  swap_shared(a, &taken, where);
  release(a, &taken);
}

// ---- heaps -------------------------------------------------------------------------------------

static void call_heap(int i, int kind) {
  pthread_rwlock_wrlock(&heaps_lock);
  if (heaps[i] != NULL) {
    fates[heap_numbers[i]] = (kind % 2 == 0 ? DESTROYED : DELETED);
    if (kind % 2 == 0) mi_heap_destroy(heaps[i]);
    else mi_heap_delete(heaps[i]);
    heaps[i] = NULL;
  } else if (heaps_ever + 1 < HEAPS_EVER) {
    heaps[i] = (kind == 3 && arena != NULL ? mi_heap_new_in_arena(arena) : mi_heap_new());
    REQUIRE(heaps[i] != NULL);
    heap_numbers[i] = ++heaps_ever;
    fates[heaps_ever] = LIVE;
  }
  pthread_rwlock_unlock(&heaps_lock);
}

static void collect_heap(int i, bool force) {
  pthread_rwlock_rdlock(&heaps_lock);
  if (heaps[i] != NULL) mi_heap_collect(heaps[i], force);
  pthread_rwlock_unlock(&heaps_lock);
}

// ---- fork --------------------------------------------------------------------------------------

// The child has what its thread and what nobody had; it goes on allocating, and ends.
static void be_child(actor_t* a) {
  signal(SIGALRM, SIG_DFL);
  signal(SIGABRT, SIG_DFL);
  alarm(100);
  is_child = true;
  for (int i = 0; i < SLOTS; i += 1 + (i % 3 == 0)) release(a, &a->blocks[i]);
  for (int i = 0; i < SHARED; i++) {
    if (shared[i].p != NULL && !is_gone(&shared[i])) check(&shared[i], shared[i].p, shared[i].size);
    if (i % 2 == 0) free_shared(a, i);
  }
  for (size_t size = 1; size < 300000; size = 2 * size + size / 2 + 1) {
    block_t b;
    enter(a, &b, mi_malloc(size), size, 1, 0, false);
    void* const other = mi_calloc(1, size);
    REQUIRE(other != NULL);
    mi_free(other);
    release(a, &b);
  }
  mi_collect(true);
  for (int i = 0; i < SLOTS; i++) release(a, &a->blocks[i]);
  _exit(0);
}

static void call_fork(actor_t* a) {
  pthread_rwlock_rdlock(&heaps_lock);
  pthread_mutex_lock(&shared_lock);
  const bool allowed = (forks_left > 0);
  if (allowed) forks_left--;
  const pid_t child = (allowed ? fork() : 1);
  if (child == 0) be_child(a);
  pthread_mutex_unlock(&shared_lock);
  pthread_rwlock_unlock(&heaps_lock);
  REQUIRE(child > 0);
  int status = 0;
  if (allowed) REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// ---- options, reports, profiles ----------------------------------------------------------------

static const struct {
  mi_option_t option;
  long values[4];
} settings[] = {
  {mi_option_purge_delay, {0, 10, -1, 1000}},
  {mi_option_purge_decommits, {0, 1, 1, 0}},
  {mi_option_page_full_retain, {0, 1, 8, 2}},
  {mi_option_page_max_candidates, {1, 2, 16, 4}},
  {mi_option_page_reclaim_on_free, {-1, 0, 1, 0}},
  {mi_option_page_cross_thread_max_reclaim, {0, 1, 32, 4}},
  {mi_option_page_max_reclaim, {-1, 0, 1, 8}},
  {mi_option_generic_collect, {1, 7, 100, 10000}},
  {mi_option_purge_holes, {0, 1, 1, 0}},
  {mi_option_allow_thp, {0, 1, 2, 0}},
  {mi_option_background_purge, {0, 1, 0, 1}},
  {mi_option_guarded_sample_rate, {0, 2, 20, 100}},
  {mi_option_arena_max_object_size, {1024, 65536, 0, 2097152}},
};

#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static long defaults[SETTINGS];

static void swallow(const char* text, void* arg) { *(size_t*)arg += strlen(text); }

static void count_bytes(void* arg, const char* buffer, size_t length) {
  *(size_t*)arg += (buffer != NULL ? length : 0);
}

static void call_profile(input_t* in, int kind) {
  size_t length = 0;
  mi_prof_stats_t stats;
  switch (kind) {
    case 0: REQUIRE(mi_prof_start((size_t)64 << byte(in) % 14)); break;
    case 1: mi_prof_stop(); break;
    case 2: mi_prof_mark(); break;
    case 3: mi_prof_reset(); break;
    case 4:
      mi_prof_stats_get(&stats);
      REQUIRE(stats.memory <= stats.memory_limit);
      break;
    default:
      REQUIRE(mi_prof_write((mi_prof_kind_t)(byte(in) % 4), (mi_prof_format_t)(byte(in) % 4),
                            count_bytes, &length));
  }
}

static void call_report(int kind) {
  size_t length = 0;
  if (kind == 0) mi_stats_print_out(swallow, &length);
  else if (kind == 1) REQUIRE(mi_report(MI_REPORT_TEXT, swallow, &length));
  else mi_stats_print_prometheus(swallow, &length);
  REQUIRE(length > 0);
}

static void call_care(input_t* in, int kind) {
  switch (kind) {
    case 0: mi_collect(false); break;
    case 1: mi_collect(true); break;
    case 2: mi_purge_holes(); break;
    case 3: mi_collect_reduce(0); break;
    case 4: mi_thread_done(); break;
    case 5: call_report(byte(in) % 3); break;
    default: collect_heap(byte(in) % HEAPS, kind == 6);
  }
}

// ---- one call ----------------------------------------------------------------------------------

// True: the thread is to end, and another one to take over.
static bool one_call(actor_t* a) {
  const uint8_t verb = byte(&a->in) % 32, where = byte(&a->in);
  block_t* const b = &a->blocks[where % SLOTS];
  switch (verb) {
    case 0: case 1: case 2: case 3: case 4: case 5: case 6: case 7: call_new(a, b, verb); break;
    case 8: case 9: case 10: call_resize(a, b, verb - 8); break;
    case 11: case 12: case 13: release(a, b); break;
    case 14: case 15: case 16: swap_shared(a, b, where % SHARED); break;
    case 17: case 18: free_shared(a, where % SHARED); break;
    case 19: case 20: call_heap(where % HEAPS, where / HEAPS % 4); break;
    case 21: case 22: call_care(&a->in, where % 8); break;
    case 23: {
      const size_t i = where % SETTINGS;
      mi_option_set(settings[i].option, settings[i].values[where / SETTINGS % 4]);
      break;
    }
    case 24: call_profile(&a->in, where % 7); break;
    case 25: if (where % 4 == 0) call_fork(a); break;
    case 26: return !a->is_last;
    case 27: case 28:
      for (int i = where % SLOTS; i < SLOTS; i++) {
        if (a->blocks[i].p == NULL) enter(a, &a->blocks[i], mi_malloc(where), where, 1, 0, false);
      }
      break;
    case 29: case 30:
      for (int i = where % SLOTS; i < SLOTS; i += verb - 28) release(a, &a->blocks[i]);
      break;
    default:
      for (int i = 0; i < SHARED && i < SLOTS; i++) swap_shared(a, &a->blocks[i], i);
  }
  return false;
}

// ---- threads -----------------------------------------------------------------------------------

static void* run_actor(void* arg);

static void start_thread(actor_t* a) {
  a->is_last = (a->thread_count + 1 == THREADS_EVER);
  REQUIRE(pthread_create(&a->threads[a->thread_count++], NULL, run_actor, a) == 0);
}

// At once: goes through its part of the input. In turn: makes a call whenever it is told to.
static void* run_actor(void* arg) {
  actor_t* const a = (actor_t*)arg;
  for (;;) {
    if (in_turn) sem_wait(&a->go);
    const bool over = (a->in.at >= a->in.end);
    const bool ends = !over && one_call(a);
    if (ends) start_thread(a);
    if (in_turn || over) sem_post(&a->done);
    if (over || ends) return NULL;
  }
}

static void join_threads(actor_t* a, int most) {
  while (a->joined_count < most) pthread_join(a->threads[a->joined_count++], NULL);
}

static void run_in_turn(input_t* in) {
  while (in->end - in->at > 1) {
    actor_t* const a = &actors[byte(in) % ACTORS];
    a->in = *in;
    sem_post(&a->go);
    sem_wait(&a->done);
    join_threads(a, a->thread_count - 1);
    *in = a->in;
  }
  for (int i = 0; i < ACTORS; i++) {
    actors[i].in = (input_t){in->end, in->end};
    sem_post(&actors[i].go);
  }
}

static void start_actors(const uint8_t* data, size_t size) {
  for (size_t i = 0; i < ACTORS; i++) {
    actor_t* const a = &actors[i];
    a->in = (input_t){data + i * size / ACTORS, data + (i + 1) * size / ACTORS};
    a->thread_count = a->joined_count = 0;
    sem_init(&a->go, 0, 0);
    sem_init(&a->done, 0, 0);
    start_thread(a);
  }
}

static void end_actors(void) {
  for (int i = 0; i < ACTORS; i++) {
    sem_wait(&actors[i].done);
    join_threads(&actors[i], actors[i].thread_count);
  }
}

// ---- the program -------------------------------------------------------------------------------

static void on_error(int code, void* arg) {
  (void)arg;
  REQUIRE(code == ENOMEM);  // an exclusive arena may be full
}

static void start(void) {
  static bool started;
  static size_t printed;
  if (started) return;
  started = true;
  mi_register_error(on_error, NULL);
  mi_register_output(swallow, &printed);
  mi_option_set(mi_option_abort_on_error, 0);
  void* const memory = mi_malloc(1);  // starts the library
  mi_free(memory);
  if (mi_reserve_os_memory_ex(ARENA_SIZE, true, false, true, &arena) != 0) arena = NULL;
  for (size_t i = 0; i < SETTINGS; i++) defaults[i] = mi_option_get(settings[i].option);
}

static bool visit(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                  void* arg) {
  (void)heap, (void)area, (void)size, (void)arg;
  REQUIRE(block == NULL);
  return true;
}

// Nothing is left of an input: no block, no heap, no setting.
static void finish(void) {
  for (size_t i = 0; i < SETTINGS; i++) mi_option_set(settings[i].option, defaults[i]);
  mi_prof_stop();
  for (int i = 0; i < ACTORS; i++) {
    for (int k = 0; k < SLOTS; k++) release(&actors[i], &actors[i].blocks[k]);
  }
  for (int i = 0; i < SHARED; i++) free_shared(&actors[0], i);
  for (int i = 0; i < HEAPS; i++) {
    if (heaps[i] != NULL) call_heap(i, i);
  }
  size_t held = 0;
  for (int i = 0; i < ACTORS; i++) held += actors[i].held;
  REQUIRE(held == 0);
  mi_collect(true);
  REQUIRE(mi_heap_visit_blocks(mi_heap_main(), true, visit, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  start();
  in_turn = (data[0] % 2 == 0);
  forks_left = FORKS_MAX;
  heaps_ever = 0;
  memset(fates, 0, sizeof(fates));
  input_t in = {data + 1, data + size};
  start_actors(in.at, size - 1);
  if (in_turn) run_in_turn(&in);
  end_actors();
  finish();
  return 0;
}
