// SPDX-License-Identifier: MIT
// The transfer cache: what one thread frees of another's blocks above 1 KiB goes on to threads that
// would take new memory, once each, within bounds, and to its page when it is not asked for, when
// memory is wanted, or when a heap is walked. Small blocks, those of other heaps and of threads
// that ended go to their pages.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../include/mimalloc.h"
#include "../../src/alloc/alloc.h"
#include "../../src/heap/thread_life.h"
#include "../../src/heap/transfer.h"
#include "../../src/mem/pagemap.h"
#include "../../src/mem/vmem.h"
#include "../../src/os/os.h"
#include "../../src/page/remote.h"
#include "../page_of.h"

#define SIZE 32768  // 40 blocks are less than a page: one that is full may have no thread
#define MOST 16     // blocks of that size that are kept: 512 KiB
#define BLOCKS 40

static int failures, errors;
static void* blocks[BLOCKS];
static sem_t is_ready;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static void on_error(int code, void* arg) { (void)code, (void)arg, errors++; }

static size_t kept(size_t size) { return mx_transfer_count(mx_bin_of(size)); }

static void sleep_msecs(long msecs) {
  const struct timespec time = {0, msecs * 1000000};
  nanosleep(&time, NULL);
}

// ---- a thread that allocates, stays, and collects when it is told to ---------------------------

typedef struct owner_s {
  pthread_t thread;
  sem_t may_end;
  size_t size, count;
  mi_heap_t* heap;
  bool collects;    // before it ends
  intptr_t slices;  // in use when it has collected
} owner_t;

static void* own(void* arg) {
  owner_t* const o = (owner_t*)arg;
  for (size_t i = 0; i < o->count; i++) {
    blocks[i] = (o->heap != NULL ? mi_heap_malloc(o->heap, o->size) : mi_malloc(o->size));
    if (blocks[i] == NULL) exit(2);
    memset(blocks[i], 0xA5, o->size);
  }
  sem_post(&is_ready);
  sem_wait(&o->may_end);
  if (o->collects) mi_collect(true);
  o->slices = mx_load_relaxed(&mx_subproc_main.arenas.in_use);
  return NULL;
}

// Nobody knows of what the test before passed on (see test_passed.c).
static void begin(owner_t* o, size_t size, size_t count, mi_heap_t* heap) {
  memset((void*)mx_subproc_main.passed_on, 0, sizeof(mx_subproc_main.passed_on));
  *o = (owner_t){.size = size, .count = count, .heap = heap, .collects = true};
  sem_init(&o->may_end, 0, 0);
  if (pthread_create(&o->thread, NULL, &own, o) != 0) exit(2);
  sem_wait(&is_ready);
}

static void end(owner_t* o) {
  sem_post(&o->may_end);
  pthread_join(o->thread, NULL);
}

static void free_all(size_t count) {
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
}

static bool is_one_of(const void* p, size_t from, size_t end_at) {
  for (size_t i = from; i < end_at; i++) {
    if (blocks[i] == p) return true;
  }
  return false;
}

// ---- what goes on -------------------------------------------------------------------------------

static void goes_on(void) {
  owner_t o;
  begin(&o, SIZE, BLOCKS, NULL);
  free_all(BLOCKS);
  EXPECT(kept(SIZE) == MOST);
  void* taken[MOST];
  for (size_t i = 0; i < MOST; i++) {
    taken[i] = (i % 2 == 0 ? mi_malloc(SIZE) : mi_calloc(1, SIZE));
    EXPECT(taken[i] == blocks[MOST - 1 - i]);
    EXPECT(i % 2 == 0 || (((char*)taken[i])[8] == 0 && ((char*)taken[i])[SIZE - 1] == 0));
  }
  EXPECT(kept(SIZE) == 0);
  void* const fresh = mi_malloc(SIZE);
  EXPECT(!is_one_of(fresh, 0, BLOCKS));
  mi_free(fresh);
  // They may go on again, or to their page.
  for (size_t i = 0; i < MOST; i++) mi_free(taken[i]);
  EXPECT(kept(SIZE) == MOST);
  mi_collect(true);
  EXPECT(kept(SIZE) == 0);
  const intptr_t before = mx_load_relaxed(&mx_subproc_main.arenas.in_use);
  end(&o);
  EXPECT(o.slices < before);  // all of them have come home
}

static void own_blocks_first(void) {
  owner_t o;
  begin(&o, SIZE, 2, NULL);
  void* own_block = mi_malloc(SIZE);
  free_all(2);
  EXPECT(kept(SIZE) == 2);
  mi_free(own_block);
  EXPECT(mi_malloc(SIZE) == own_block);
  mi_free(own_block);
  mi_collect(true);
  end(&o);
}

// Where blocks have to be of a memory node, they go to their pages, and no other's is taken.
static void of_a_node(void) {
  owner_t o;
  begin(&o, SIZE, 8, NULL);
  mi_free(blocks[0]);
  EXPECT(kept(SIZE) == 1);
  mi_heap_set_numa_affinity(mi_heap_main(), 0);
  mi_free(blocks[1]);
  EXPECT(kept(SIZE) == 1);
  void* const p = mi_malloc(SIZE);
  EXPECT(!is_one_of(p, 0, 1) && kept(SIZE) == 1);
  mi_heap_set_numa_affinity(mi_heap_main(), -1);
  for (size_t i = 2; i < 8; i++) mi_free(blocks[i]);
  EXPECT(kept(SIZE) == 7);
  mi_free(p);
  mi_collect(true);
  end(&o);
}

static void at_an_offset(void) {
  owner_t o;
  begin(&o, SIZE, 1, NULL);
  free_all(1);
  EXPECT(kept(SIZE) == 1);
  void* const p = mi_malloc_aligned_at(SIZE - 64, 64, 32);
  EXPECT(p != NULL && ((uintptr_t)p + 32) % 64 == 0 && mi_usable_size(p) >= SIZE - 64);
  memset(p, 1, SIZE - 64);
  // Its owner's page has no mark that another thread set.
  EXPECT(mx_load_relaxed(&page_of(blocks[0])->shifted) == 0);
  mi_free(p);
  mi_collect(true);
  end(&o);
}

static void freed_twice(void) {
  owner_t o;
  begin(&o, SIZE, 2, NULL);
  mi_register_error(&on_error, NULL);
  mi_free(blocks[0]);
  mi_free(blocks[0]);
  EXPECT(errors == 1 && kept(SIZE) == 1);
  mx_page_t* const page = page_of(blocks[1]);
  for (int i = 0; i < 2; i++) {
    EXPECT(errors == 1 && !mx_remote_push(page, (mx_block_t*)blocks[1]));
  }
  EXPECT(errors == 2);
  mi_register_error(NULL, NULL);
  mi_collect(true);
  end(&o);
}

// ---- what does not -----------------------------------------------------------------------------

static void others_go_home(void) {
  owner_t o;
  begin(&o, MX_SMALL_MAX, BLOCKS, NULL);
  free_all(BLOCKS);
  EXPECT(kept(MX_SMALL_MAX) == 0);
  end(&o);
  mi_heap_t* const heap = mi_heap_new();
  begin(&o, SIZE, BLOCKS, heap);
  free_all(BLOCKS);
  EXPECT(kept(SIZE) == 0);
  end(&o);
  mi_heap_delete(heap);
  begin(&o, SIZE, BLOCKS, NULL);
  end(&o);
  free_all(BLOCKS);
  EXPECT(kept(SIZE) == 0);
}

// All sizes together have a share of what is committed.
static void bounded(void) {
  enum { SIZES = 8 };
  static void* of[SIZES][BLOCKS];
  owner_t owners[SIZES];
  for (size_t i = 0; i < SIZES; i++) {
    begin(&owners[i], SIZE + SIZE / 4 * i, BLOCKS, NULL);
    memcpy(of[i], blocks, sizeof(blocks));
  }
  size_t bytes = 0;
  for (size_t i = 0; i < SIZES; i++) {
    for (size_t n = 0; n < BLOCKS; n++) mi_free(of[i][n]);
    EXPECT(kept(owners[i].size) * owners[i].size <= MOST * SIZE);
    bytes += kept(owners[i].size) * mi_good_size(owners[i].size);
  }
  const size_t now = (size_t)mx_load_relaxed(&mx_process_counters.committed.current);
  EXPECT(bytes > now / 16 && bytes <= now / 8);
  mi_collect(true);
  for (size_t i = 0; i < SIZES; i++) end(&owners[i]);
}

// ---- when they go home -------------------------------------------------------------------------

// What nobody asked for between two looks goes.
static void time_is_up(void) {
  owner_t o, other;
  begin(&o, SIZE, 8, NULL);
  free_all(8);
  begin(&other, 2 * SIZE, 3, NULL);
  free_all(3);
  mx_transfer_flush(false);
  EXPECT(kept(SIZE) == 8 && kept(2 * SIZE) == 3);
  mx_transfer_flush(false);  // too early
  EXPECT(kept(SIZE) == 8 && kept(2 * SIZE) == 3);
  for (int looks = 0; looks < 2; looks++) {
    sleep_msecs(300);
    mx_transfer_flush(false);
  }
  EXPECT(kept(SIZE) == 0 && kept(2 * SIZE) == 0);
  end(&o);
  end(&other);
}

// What a few blocks kept of a thread's pages would stay as long as nobody asks for any.
static void thread_ends(void) {
  owner_t o;
  begin(&o, SIZE, 8, NULL);
  o.collects = false;
  free_all(8);
  EXPECT(kept(SIZE) == 8);
  end(&o);
  EXPECT(kept(SIZE) == 0);
}

// What was there all the time goes, though the others come and go.
static void rest_goes(void) {
  owner_t o;
  begin(&o, SIZE, 8, NULL);
  mx_transfer_flush(true);
  free_all(8);
  sleep_msecs(300);
  mx_transfer_flush(false);
  for (int i = 0; i < 3; i++) {
    void* const p[2] = {mi_malloc(SIZE), mi_malloc(SIZE)};
    EXPECT(p[0] == blocks[7] && p[1] == blocks[6]);
    mi_free(p[1]);
    mi_free(p[0]);
  }
  EXPECT(kept(SIZE) == 8);
  sleep_msecs(300);
  mx_transfer_flush(false);
  EXPECT(kept(SIZE) == 2 && mi_malloc(SIZE) == blocks[7] && mi_malloc(SIZE) == blocks[6]);
  mi_free(blocks[6]);
  mi_free(blocks[7]);
  end(&o);
}

static void collected(void) {
  owner_t o;
  begin(&o, SIZE, 8, NULL);
  free_all(8);
  EXPECT(kept(SIZE) == 8);
  mi_heap_collect(mi_heap_main(), true);
  EXPECT(kept(SIZE) == 0);
  end(&o);
}

static bool count_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                        void* arg) {
  (void)heap, (void)area;
  if (block != NULL && size == SIZE) ++*(size_t*)arg;
  return true;
}

static void walked(void) {
  owner_t o;
  begin(&o, SIZE, 8, NULL);
  free_all(6);
  EXPECT(kept(SIZE) == 6);
  size_t live = 0;
  mi_heap_visit_blocks(mi_heap_main(), true, &count_block, &live);
  EXPECT(live == 2 && kept(SIZE) == 0);
  mi_free(blocks[6]);
  mi_free(blocks[7]);
  end(&o);
}

static void forked(void) {
  owner_t o;
  begin(&o, SIZE, 8, NULL);
  free_all(8);
  const pid_t child = fork();
  if (child == 0) {
    bool is_right = (kept(SIZE) == 8);
    for (size_t i = 8; i-- > 0;) is_right &= (mi_malloc(SIZE) == blocks[i]);
    free_all(8);
    mi_collect(true);
    _exit(is_right && kept(SIZE) == 0 ? 0 : 1);
  }
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  EXPECT(kept(SIZE) == 8);
  mi_collect(true);
  end(&o);
}

// Nothing leads into memory that has gone.
static void forgotten(void) {
  owner_t o;
  begin(&o, SIZE, 8, NULL);
  free_all(4);
  EXPECT(kept(SIZE) == 4);
  mx_transfer_forget();
  EXPECT(kept(SIZE) == 0);
  mi_free(blocks[4]);
  EXPECT(kept(SIZE) == 0);
  end(&o);
}

// ---- several caches ----------------------------------------------------------------------------

#define CACHES 16      // each with a lock
#define LOCKS_MOST 20  // that are looked for
#define CROWD 20       // threads: enough for two caches
#define USES 1024      // between two looks whether a cache's lock is wanted by several at once

typedef struct member_s {
  pthread_t thread;
  sem_t may_look;
  bool finds, is_done;
} member_t;

static member_t crowd[CROWD];
static mx_lock_t* first_lock;

static bool note_first(mx_lock_t* lock) {
  first_lock = lock;
  return false;
}

static size_t locks;

static bool count_lock(mx_lock_t* lock) {
  if (locks == 0) EXPECT(lock == first_lock);
  return ++locks < LOCKS_MOST;
}

static void* look(void* arg) {
  member_t* const m = (member_t*)arg;
  mi_free(mi_malloc(1));
  for (;;) {
    sem_post(&is_ready);
    sem_wait(&m->may_look);
    if (m->is_done) return NULL;
    m->finds = mx_transfer_has(mx_thread_theap(), mx_bin_of(SIZE));
  }
}

// How many of the threads find a block of SIZE bytes.
static size_t finders(void) {
  size_t count = 0;
  for (size_t i = 0; i < CROWD; i++) {
    sem_post(&crowd[i].may_look);
    sem_wait(&is_ready);
    count += crowd[i].finds;
  }
  return count;
}

// Takes a block and puts it back so many times; one in so many takings keeps others from it.
static void use(size_t times, size_t share) {
  mx_theap_t* const theap = mx_thread_theap();
  for (size_t i = 0; i < times; i++) {
    mx_block_t* const block = mx_transfer_take(theap, mx_bin_of(SIZE));
    if (block == NULL) return;  // of another cache by now
    mx_page_t* const page = page_of(block);
    if (i % share == 0) {
      EXPECT(mx_lock_try(first_lock));
      EXPECT(!mx_transfer_put(theap, page, block) && !mx_transfer_put(theap, page, block));
      mx_lock_release(first_lock);
    }
    EXPECT(mx_transfer_put(theap, page, block));
  }
}

// Threads have one cache, however many they are, until its lock keeps them from it.
static void crowded(void) {
  owner_t o;
  EXPECT(!mx_transfer_visit_locks(&note_first));
  EXPECT(mx_transfer_visit_locks(&count_lock) && locks == CACHES);
  begin(&o, SIZE, 8, NULL);
  for (size_t i = 0; i < CROWD; i++) {
    sem_init(&crowd[i].may_look, 0, 0);
    if (pthread_create(&crowd[i].thread, NULL, &look, &crowd[i]) != 0) exit(2);
    sem_wait(&is_ready);
  }
  free_all(8);
  EXPECT(kept(SIZE) == 8 && finders() == CROWD);
  use(2 * USES, 3);  // a sixth of the times that it is taken
  EXPECT(finders() == CROWD);
  use(USES + 1, 1);
  const size_t half = finders();
  EXPECT(half > 0 && half < CROWD);
  for (size_t i = 0; i < CROWD; i++) {
    crowd[i].is_done = true;
    sem_post(&crowd[i].may_look);
    pthread_join(crowd[i].thread, NULL);
  }
  mi_collect(true);
  EXPECT(kept(SIZE) == 0);
  end(&o);
}

int main(void) {
  if (!MX_TRANSFERS) {
    printf("this build has no transfer cache\n");
    return EXIT_SUCCESS;
  }
  sem_init(&is_ready, 0, 0);
  goes_on();
  own_blocks_first();
  of_a_node();
  at_an_offset();
  freed_twice();
  others_go_home();
  bounded();
  time_is_up();
  thread_ends();
  rest_goes();
  collected();
  walked();
  forked();
  crowded();
  forgotten();
  if (failures == 0) printf("all is well\n");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
