// SPDX-License-Identifier: MIT
// Spare blocks: what a thread frees of a page that it gave up comes back with its next request of
// the size, once, within bounds, and goes to its page when it is not asked for, when memory is
// wanted, when a heap is walked and when the thread ends. Small blocks, those of other heaps and
// those of other threads go to their pages.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/mimalloc.h"
#include "../../src/alloc/alloc.h"
#include "../../src/heap/transfer.h"
#include "../../src/mem/pagemap.h"
#include "../../src/page/remote.h"
#include "../page_of.h"

#define SIZE 2048
#define BLOCKS 4000  // of so many pages that a thread gives up most
#define FILL 400     // and so many make the current page full

static int failures, errors;
static void *blocks[BLOCKS], *fill[FILL];
static size_t filled;
static sem_t is_ready, may_end;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static void on_error(int code, void* arg) { (void)code, (void)arg, errors++; }

static size_t waiting(size_t size) {
  const size_t bin = mx_bin_of(size);
  const mx_spare_slot_t* const slot = &mx_tls_theap->spares.slots[bin % MX_SPARE_SLOTS];
  return slot->bin == bin ? slot->count : 0;
}

static bool is_unowned(const void* p) {
  return (mx_load_relaxed(&page_of(p)->remote) & MX_OWNED) == 0;
}

// As if blocks had been asked for.
static void begin_anew(void) {
  for (size_t i = 0; mx_tls_theap->spares.bytes == 0 && i < MX_SPARE_SLOTS; i++) {
    mx_tls_theap->spares.slots[i].rest = 0;
  }
}

static void make(size_t size, mi_heap_t* heap) {
  begin_anew();
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = (heap != NULL ? mi_heap_malloc(heap, size) : mi_malloc(size));
    if (blocks[i] == NULL) exit(2);
    memset(blocks[i], 0xA5, size);
  }
  EXPECT(is_unowned(blocks[0]) && is_unowned(blocks[BLOCKS / 2]));
}

static void free_from(size_t i) {
  for (; i < BLOCKS; i++) mi_free(blocks[i]);
  for (; filled > 0; filled--) mi_free(fill[filled - 1]);
  mi_collect(true);
}

// The next request looks further than at the current page.
static void fill_current(size_t size) {
  while (mx_tls_theap->bins.current[mx_bin_of(size)]->free != NULL && filled < FILL) {
    fill[filled++] = mi_malloc(size);
  }
  EXPECT(filled < FILL);
}

// A block of each of two pages, or more.
static size_t other_page(size_t i) {
  size_t k = i + 1;
  while (page_of(blocks[k]) == page_of(blocks[i])) k++;
  return k;
}

// ---- what comes back ---------------------------------------------------------------------------

static void comes_back(void) {
  make(SIZE, NULL);
  size_t same = 0;
  for (size_t i = 0; i < BLOCKS / 2; i += 20) {
    fill_current(SIZE);
    void* const freed = blocks[i];
    mi_free(freed);
    EXPECT(waiting(SIZE) == 1 && is_unowned(freed));
    blocks[i] = mi_calloc(1, SIZE);
    same += (blocks[i] == freed);
    EXPECT(((char*)blocks[i])[0] == 0 && ((char*)blocks[i])[SIZE - 1] == 0);
    mi_collect(false);
    mx_transfer_flush(false);
    EXPECT(waiting(SIZE) == 0);
  }
  EXPECT(same >= 100 * 14 / 16 && same < 100);  // one in so many is a visit
  free_from(0);
}

// Two at a time are asked for again, so two wait; a thread that only frees keeps few.
static void bounded(void) {
  make(SIZE, NULL);
  size_t at[16] = {0};
  for (size_t i = 1; i < 16; i++) at[i] = other_page(at[i - 1]);
  fill_current(SIZE);
  size_t most = 0;
  for (size_t i = 0; i < 16; i++) {
    mi_free(blocks[at[i]]);
    if (waiting(SIZE) > most) most = waiting(SIZE);
  }
  EXPECT(most >= 1 && most < 8);
  size_t bytes = 0;
  for (size_t i = 0; i < MX_SPARE_SLOTS; i++) {
    const mx_spare_slot_t* const slot = &mx_tls_theap->spares.slots[i];
    bytes += slot->count * mx_bin_size(slot->bin);
  }
  EXPECT(mx_tls_theap->spares.bytes == bytes);
  for (size_t i = 0; i < 16; i++) blocks[at[i]] = mi_malloc(SIZE);
  free_from(0);
  EXPECT(waiting(SIZE) == 0 && mx_tls_theap->spares.bytes == 0);
}

// A thread that frees and does not ask has most go home at once.
static void rests(void) {
  make(SIZE, NULL);
  size_t at = 0, kept = 0;
  for (size_t i = 0; i < 64; i++) {
    const size_t before = waiting(SIZE), next = other_page(at);
    mi_free(blocks[at]);
    kept += waiting(SIZE) > before;
    blocks[at] = NULL;
    at = next;
  }
  EXPECT(kept >= 4 && kept < 12);
  free_from(0);
}

// Sizes that share a slot take turns.
static void shared_slot(void) {
  const size_t bin = mx_bin_of(SIZE), other = mx_bin_size(bin - MX_SPARE_SLOTS);
  static void* others[4 * BLOCKS];
  make(SIZE, NULL);
  for (size_t i = 0; i < 4 * BLOCKS; i++) others[i] = mi_malloc(other);
  EXPECT(mx_page_is_mine(page_of(others[4 * BLOCKS - 1])) && is_unowned(others[0]));
  mi_free(blocks[0]);
  EXPECT(waiting(SIZE) == 1);
  mi_free(others[0]);
  EXPECT(waiting(SIZE) == 0 && waiting(other) == 0 && mx_page_is_mine(page_of(blocks[0])));
  begin_anew();
  mi_free(others[2 * BLOCKS]);
  EXPECT(waiting(other) == 1);
  fill_current(SIZE);
  void* const p = mi_malloc(SIZE);
  EXPECT(mi_usable_size(p) == SIZE && waiting(other) == 1);
  mi_free(p);
  for (size_t i = 1; i < 4 * BLOCKS; i++) {
    if (i != 2 * BLOCKS) mi_free(others[i]);
  }
  free_from(1);
  EXPECT(mx_tls_theap->spares.bytes == 0);
}

static void freed_twice(void) {
  make(SIZE, NULL);
  mi_register_error(&on_error, NULL);
  errors = 0;
  mi_free(blocks[0]);
  const uintptr_t freed = mx_load_relaxed(&page_of(blocks[0])->remote);
  mi_free(blocks[0]);
  EXPECT(errors == 1 && waiting(SIZE) == 1);
  EXPECT(mx_load_relaxed(&page_of(blocks[0])->remote) == freed);  // it is not in its page as well
  mi_register_error(NULL, NULL);
  free_from(1);
}

// A pointer behind a block's start needs a page that can be marked.
static void at_an_offset(bool has_other_default) {
  make(SIZE, NULL);
  fill_current(SIZE);
  mi_free(blocks[0]);
  EXPECT(waiting(SIZE) == 1);
  mi_heap_t* const heap = (has_other_default ? mi_heap_new() : NULL);
  mi_theap_t* const before = (heap != NULL ? mi_theap_set_default(mi_heap_theap(heap)) : NULL);
  void* const p = mi_heap_malloc_aligned_at(mi_heap_main(), SIZE - 64, 64, 32);
  if (before != NULL) mi_theap_set_default(before);
  EXPECT(p != NULL && ((uintptr_t)p + 32) % 64 == 0 && mi_usable_size(p) < 2 * SIZE);
  EXPECT(waiting(SIZE) == 0 && mx_page_is_mine(page_of(p)));
  mi_free(p);
  free_from(1);
  if (heap != NULL) mi_heap_destroy(heap);
}

// ---- what does not -----------------------------------------------------------------------------

static void in_a_thread(void* (*run)(void*)) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, NULL) != 0) exit(2);
  pthread_join(thread, NULL);
}

static void* free_some(void* arg) {
  (void)arg;
  void* const own = mi_malloc(SIZE);
  for (size_t i = 0; i < 100; i += 20) mi_free(blocks[i]);
  EXPECT(waiting(SIZE) == 0);
  mi_free(own);
  return NULL;
}

static void others_go_home(void) {
  make(128, NULL);
  mi_free(blocks[0]);
  EXPECT(waiting(128) == 0);
  free_from(1);
  mi_heap_t* const heap = mi_heap_new();
  make(SIZE, heap);
  mi_free(blocks[0]);
  EXPECT(mx_tls_theap->spares.bytes == 0);
  mi_heap_destroy(heap);
  make(SIZE, NULL);
  in_a_thread(&free_some);
  for (size_t i = 0; i < 100; i += 20) blocks[i] = NULL;
  free_from(0);
}

// The record that was the theap of a heap in one thread is the first one of another.
static mi_heap_t* of_ended;

static void* make_and_end(void* arg) {
  (void)arg;
  make(SIZE, of_ended);
  return NULL;
}

static void* free_in_record(void* reached) {
  mi_free(mi_malloc(SIZE));
  if (mx_page_theap(page_of(blocks[0])) == mx_tls_theap) {
    *(bool*)reached = true;
    mi_free(blocks[0]);
    EXPECT(mx_tls_theap->spares.bytes == 0);
  }
  sem_post(&is_ready);
  sem_wait(&may_end);
  return NULL;
}

static void records_of_others(void) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  bool is_reached = false;
  const long retain = mi_option_get(mi_option_theap_retain);
  mi_option_set(mi_option_theap_retain, 0);
  of_ended = mi_heap_new();
  if (pthread_create(&threads[0], NULL, &make_and_end, NULL) != 0) exit(2);
  pthread_join(threads[0], NULL);
  for (size_t i = 0; i < THREADS; i++) {
    if (pthread_create(&threads[i], NULL, &free_in_record, &is_reached) != 0) exit(2);
    sem_wait(&is_ready);
  }
  EXPECT(is_reached);
  for (size_t i = 0; i < THREADS; i++) sem_post(&may_end);
  for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  mi_heap_destroy(of_ended);
  mi_option_set(mi_option_theap_retain, retain);
}

// ---- when they go home -------------------------------------------------------------------------

static bool count_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                        void* arg) {
  (void)heap, (void)area;
  if (block != NULL && size == SIZE) ++*(size_t*)arg;
  return true;
}

static size_t live(void) {
  size_t count = 0;
  mi_heap_visit_blocks(mi_heap_main(), true, &count_block, &count);
  return count;
}

static void walked(void) {
  make(SIZE, NULL);
  mi_free(blocks[0]);
  EXPECT(waiting(SIZE) == 1);
  EXPECT(live() == BLOCKS - 1 && waiting(SIZE) == 0);
  free_from(1);
  EXPECT(live() == 0);
}

// A page can become empty: the second of its blocks takes along the one that waits.
static void page_by_page(void) {
  make(SIZE, NULL);
  const size_t end = other_page(0);
  const mx_page_t* const page = page_of(blocks[0]);
  mi_free(blocks[0]);
  EXPECT(waiting(SIZE) == 1 && is_unowned(blocks[0]));
  mi_free(blocks[1]);
  EXPECT(waiting(SIZE) == 0 && mx_page_is_mine(page_of(blocks[0])));  // nobody else shall take it
  for (size_t i = 2; i < end; i++) mi_free(blocks[i]);
  EXPECT(waiting(SIZE) == 0 && (page_of(blocks[0]) != page || page->used == 0));
  free_from(end);
}

static void collected(void) {
  make(SIZE, NULL);
  mi_free(blocks[0]);
  EXPECT(waiting(SIZE) == 1);
  mi_collect(true);
  EXPECT(waiting(SIZE) == 0 && mx_tls_theap->spares.bytes == 0);
  mi_free(blocks[other_page(0)]);
  blocks[other_page(0)] = NULL;
  EXPECT(waiting(SIZE) == 1);
  mi_heap_collect(mi_heap_main(), false);
  EXPECT(waiting(SIZE) == 0);
  free_from(1);
}

// A thread that joins a sub-process, or shall keep little, keeps none.
static void* reduce(void* arg) {
  (void)arg;
  make(SIZE, NULL);
  mi_free(blocks[0]);
  EXPECT(waiting(SIZE) == 1);
  mi_thread_set_in_threadpool();
  EXPECT(waiting(SIZE) <= 1);
  mi_collect_reduce(0);
  EXPECT(waiting(SIZE) == 0 && is_unowned(blocks[0]));
  mi_free(blocks[other_page(0)]);
  blocks[other_page(0)] = NULL;
  EXPECT(waiting(SIZE) == 1);
  mi_subproc_id_t subproc = mi_subproc_new();
  mi_subproc_add_current_thread(subproc);
  EXPECT(mx_tls_theap->spares.bytes == 0);
  void* const p = mi_malloc(SIZE);
  EXPECT(mx_page_heap(page_of(p)) == mx_tls_theap->heap);
  mi_free(p);
  return NULL;
}

// Other sizes' visits count, too.
static void time_is_up(void) {
  make(SIZE, NULL);
  static void* others[BLOCKS];
  mi_free(blocks[0]);
  EXPECT(waiting(SIZE) == 1);
  for (size_t i = 0; i < BLOCKS; i++) others[i] = mi_malloc(4 * SIZE);
  EXPECT(waiting(SIZE) == 0);
  for (size_t i = 0; i < BLOCKS; i++) mi_free(others[i]);
  free_from(1);
}

static mx_theap_t* of_waiting;

static void* make_and_wait(void* arg) {
  make(SIZE, NULL);
  of_waiting = mx_tls_theap;
  mi_free(blocks[0]);
  EXPECT(waiting(SIZE) == 1);
  sem_post(&is_ready);
  sem_wait(&may_end);
  if (arg != NULL) mi_thread_done();
  EXPECT(mx_call_depth == 0);  // as many calls were left as were entered
  return NULL;
}

static void thread_ends(bool says_so) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, &make_and_wait, says_so ? &thread : NULL) != 0) exit(2);
  sem_wait(&is_ready);
  sem_post(&may_end);
  pthread_join(thread, NULL);
  EXPECT(live() == BLOCKS - 1);
  free_from(1);
  EXPECT(live() == 0);
}

// ---- fork --------------------------------------------------------------------------------------

static int forked(void (*run)(void)) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    failures = 0;
    run();
    fflush(stdout);
    _exit(failures == 0 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

static void own_in_child(void) {
  EXPECT(waiting(SIZE) == 1);
  void* const p = mi_malloc(SIZE);
  EXPECT(p == blocks[0] && waiting(SIZE) == 0);
  EXPECT(live() == BLOCKS + filled);
}

// What waited for a thread that is not there counts as live.
static void others_in_child(void) {
  EXPECT(live() == BLOCKS);
  for (size_t i = 1; i < BLOCKS; i++) mi_free(blocks[i]);
  EXPECT(live() == 1 && mx_tls_theap->spares.bytes == 0);
}

// The thread was amid the step that keeps a block.
static void torn_in_child(void) {
  EXPECT(live() == BLOCKS && of_waiting->spares.bytes == 0);
  for (size_t i = 0; i < MX_SPARE_SLOTS; i++) {
    EXPECT(of_waiting->spares.slots[i].waiting == NULL && of_waiting->spares.slots[i].count == 0);
  }
}

static void forks(void) {
  pthread_t thread;
  make(SIZE, NULL);
  fill_current(SIZE);
  mi_free(blocks[0]);
  mx_tls_theap->spares.takes = 0;
  EXPECT(forked(&own_in_child) == 0 && waiting(SIZE) == 1);
  free_from(1);
  if (pthread_create(&thread, NULL, &make_and_wait, NULL) != 0) exit(2);
  sem_wait(&is_ready);
  EXPECT(forked(&others_in_child) == 0);
  const uint32_t bytes = of_waiting->spares.bytes;
  of_waiting->spares.bytes = 0;
  EXPECT(forked(&torn_in_child) == 0);
  of_waiting->spares.bytes = bytes;
  sem_post(&may_end);
  pthread_join(thread, NULL);
  free_from(1);
}

int main(void) {
  if (!MX_TRANSFERS) {
    printf("this build has no spare blocks\n");
    return EXIT_SUCCESS;
  }
  sem_init(&is_ready, 0, 0);
  sem_init(&may_end, 0, 0);
  comes_back();
  bounded();
  rests();
  shared_slot();
  freed_twice();
  at_an_offset(false);
  at_an_offset(true);
  others_go_home();
  records_of_others();
  walked();
  page_by_page();
  collected();
  in_a_thread(&reduce);
  free_from(1);
  time_is_up();
  thread_ends(false);
  thread_ends(true);
  forks();
  if (failures == 0) printf("all is well\n");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
