// SPDX-License-Identifier: MIT
// The deterministic stress: threads that take turns in an order which the seed decides, random
// choices and random numbers from the seed, a clock that moves when told, OS calls that fail when
// told. So a run can be repeated exactly; each seed is run twice, and both must come to the same
// places in memory. A failure names its seed: `replay 0 SEED 8 child` repeats it.
//
// Threads end and start anew, give heaps up, free each other's blocks and collect. Between turns nobody is
// in the library: now and then all that it keeps beside each other is compared (test/audit.h), and
// blocks in use are as many as there should be.
#include "../../audit.h"
#include "../stress.h"

#include <errno.h>
#include <semaphore.h>
#include <sys/wait.h>

#include "heap/transfer.h"
#include "mimalloc.h"
#include "mock_os.h"

#define THREADS 8
#define PLACES 400
#define TURNS 6000
#define TURNS_PER_AUDIT 97
#define HEAPS 4

typedef struct turn_s {
  sem_t go, done;
  pthread_t thread;
  bool ends;
} turn_t;

static turn_t turns[THREADS];
static random_t common;
static block_t* places[PLACES];
static mi_heap_t* heaps[HEAPS];
static uint64_t digest = 1469598103934665603u;

static void note(uint64_t value) { digest = (digest ^ value) * 1099511628211u; }

// Where a block lies, in terms that do not change from run to run.
static void note_place(const void* p) {
  const mx_page_t* const page = mx_pagemap_find(p);
  const mx_arena_t* const arena = (page == NULL ? NULL : page->arena);
  note(arena == NULL ? (uint64_t)(p != NULL) : (uint64_t)((const uint8_t*)p - arena->start));
}

static void put(size_t i, size_t size) {
  void* p;
  mi_heap_t* heap = heaps[random_below(&common, HEAPS)];
  errno = 0;
  if (heap != NULL && random_below(&common, 3) == 0) p = mi_heap_malloc(heap, size);
  else p = mi_malloc(size);
  note_place(p);
  check(p != NULL || errno == ENOMEM);
  if (p == NULL) return;
  block_sign((block_t*)p, size, random_next(&common));
  places[i] = (block_t*)p;
}

static void take(size_t i) {
  block_check(places[i]);
  mi_free(places[i]);
  places[i] = NULL;
}

static void change_heap(void) {
  const size_t i = random_below(&common, HEAPS);
  if (heaps[i] == NULL) heaps[i] = mi_heap_new();
  else {
    mi_heap_delete(heaps[i]);
    heaps[i] = NULL;
  }
}

static void act(void) {
  const size_t what = random_below(&common, 1000);
  const size_t i = random_below(&common, PLACES);
  if (what < 4) mi_collect(what == 0);
  else if (what < 10) change_heap();
  else if (what < 14) mock_fail_next();
  else if (what < 100) mock_sleep(random_below(&common, 400));
  else if (places[i] == NULL) put(i, 32 + random_size(&common));
  else take(i);
  note((uint64_t)mx_load_relaxed(&mx_subproc_main.arenas.in_use));
  note((uint64_t)mx_load_relaxed(&mx_subproc_main.arenas.purgeable));
}

static void* body(void* arg) {
  turn_t* t = (turn_t*)arg;
  for (;;) {
    sem_wait(&t->go);
    if (t->ends) return NULL;
    for (size_t n = 1 + random_below(&common, 8); n > 0; n--) act();
    sem_post(&t->done);
  }
}

static void end_turn_of(turn_t* t) {
  t->ends = true;
  sem_post(&t->go);
  pthread_join(t->thread, NULL);  // what it does at its end is part of this turn
  t->ends = false;
}

static void look(void) {
  size_t live = 0;
  for (size_t i = 0; i < PLACES; i++) {
    const mx_page_t* const page = (places[i] == NULL ? NULL : mx_pagemap_find(places[i]));
    live += (page != NULL && !mx_page_is_huge(page));
  }
  for (size_t bin = 1; bin < MX_BIN_COUNT; bin++) live += mx_transfer_count(bin);
  const mx_theap_t* theap = mx_subproc_main.main_heap.theaps;
  for (; theap != NULL; theap = theap->links.next_in_heap) {
    for (size_t i = 0; i < MX_SPARE_SLOTS; i++) live += theap->spares.slots[i].count;
  }
  if (audit(&mx_subproc_main) != 0) fail("seed %llu: see above", (unsigned long long)stress_seed);
  // Where words are short nobody knows how many blocks others freed.
  if (MX_64BIT && live != audited.live) fail("%zu live blocks, counted %zu", live, audited.live);
}

static int child(void) {
  common = random_of(0);
  mock_seed(stress_seed);
  for (int i = 0; i < THREADS; i++) {
    sem_init(&turns[i].go, 0, 0);
    sem_init(&turns[i].done, 0, 0);
    turns[i].thread = start(body, &turns[i]);
  }
  for (int n = 0; n < TURNS; n++) {
    turn_t* t = &turns[random_below(&common, THREADS)];
    if (random_below(&common, 40) == 0) {
      end_turn_of(t);
      t->thread = start(body, t);
    }
    sem_post(&t->go);
    sem_wait(&t->done);
    if (n % TURNS_PER_AUDIT == 0) look();
  }
  for (int i = 0; i < THREADS; i++) end_turn_of(&turns[i]);
  mock_heal();
  for (int i = 0; i < HEAPS; i++) {
    if (heaps[i] != NULL) mi_heap_delete(heaps[i]);
  }
  for (size_t i = 0; i < PLACES; i++) {
    if (places[i] != NULL) take(i);
  }
  mi_collect(true);
  look();
  const long in_use = (long)mx_load_relaxed(&mx_subproc_main.arenas.in_use);
  if (in_use != 0) fail("seed %llu: %ld slices are lost", (unsigned long long)stress_seed, in_use);
  printf("%016llx\n", (unsigned long long)digest);
  return 0;
}

static void run(const char* self, unsigned long long seed, char* out, size_t size) {
  char command[512];
  snprintf(command, sizeof(command), "'%s' 0 %llu 8 child", self, seed);
  FILE* f = popen(command, "r");
  check(f != NULL);
  const size_t n = fread(out, 1, size - 1, f);
  out[n] = 0;
  if (pclose(f) != 0) fail("failed: %s", command);
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  if (argc > 4) return child();
  setenv("MIMALLOC_BACKGROUND_PURGE", "0", 1);  // a thread that takes no turns
  unsigned long long seed = stress_seed;
  do {
    char first[64], second[64];
    run(argv[0], seed, first, sizeof(first));
    run(argv[0], seed, second, sizeof(second));
    if (strcmp(first, second) != 0) fail("seed %llu: two runs differ", seed);
    seed++;
  } while (!stress_is_over());
  printf("%llu seeds, each repeated exactly\n", seed - stress_seed);
  return 0;
}
