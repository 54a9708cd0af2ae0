// SPDX-License-Identifier: MIT
// Theaps of threads that ended: the next thread begins with what the last one had, others may free
// into it meanwhile, there are no more of them than may be, and none when memory is wanted: by a
// collection, a look at abandoned pages, an allocation that fails, the end of a sub-process, the
// child of a fork, or because no thread came for a while.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/mimalloc.h"
#include "../../src/alloc/alloc.h"
#include "../../src/alloc/sample.h"
#include "../../src/heap/parked.h"
#include "../../src/heap/thread_life.h"
#include "../../src/mem/vmem.h"
#include "../../src/os/os.h"
#include "../../src/page/remote.h"
#include "../page_of.h"

#define BLOCKS 120
#define LEFT 12  // of them stay
#define CROWD 4

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static void* left[CROWD][LEFT];
static mx_theap_t* theap_of[CROWD];
static pthread_barrier_t together;
static mi_subproc_id_t in_subproc;

static size_t size_of(size_t i) { return 16 + i % 10 * 64; }

static size_t parked_in(const mx_subproc_t* subproc) {
  size_t count = 0;
  for (size_t i = 0; i < MX_PARKED_MAX; i++) {
    count += (mx_load_acquire(&subproc->parked[i].theap) != NULL);
  }
  return count;
}

static size_t parked(void) { return parked_in(&mx_subproc_main); }

// As many as are expected, in builds that park at all.
static bool are_parked(size_t count) { return parked() == (MX_PARKS ? count : 0); }

static intptr_t slices_in_use(void) { return mx_load_relaxed(&mx_subproc_main.arenas.in_use); }

static int64_t threads_now(void) {
  return mx_load_relaxed(&mx_subproc_main.main_heap.counters.threads.current);
}

static void fill(size_t n) {
  void* blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = mi_malloc(size_of(i));
    memset(blocks[i], (int)i, size_of(i));
  }
  theap_of[n] = mx_tls_theap;
  for (size_t i = 0; i < BLOCKS; i++) {
    if (i % (BLOCKS / LEFT) == 0) left[n][i / (BLOCKS / LEFT)] = blocks[i];
    else mi_free(blocks[i]);
  }
}

static bool is_whole(size_t n, size_t k) {
  const uint8_t* const block = (const uint8_t*)left[n][k];
  const size_t i = k * (BLOCKS / LEFT);
  return block[0] == (uint8_t)i && block[size_of(i) - 1] == (uint8_t)i;
}

static void free_left(size_t n) {
  for (size_t k = 0; k < LEFT; k++) {
    EXPECT(is_whole(n, k));
    mi_free(left[n][k]);
  }
}

static void* fills(void* arg) {
  const size_t n = (size_t)(uintptr_t)arg;
  if (in_subproc.opaque != NULL) mi_subproc_add_current_thread(in_subproc);
  fill(n);
  pthread_barrier_wait(&together);
  return NULL;
}

// So many threads at once fill, and end.
static void run_threads(size_t count) {
  pthread_t threads[CROWD];
  pthread_barrier_init(&together, NULL, (unsigned)count);
  for (size_t n = 0; n < count; n++) {
    EXPECT(pthread_create(&threads[n], NULL, fills, (void*)(uintptr_t)n) == 0);
  }
  for (size_t n = 0; n < count; n++) pthread_join(threads[n], NULL);
  pthread_barrier_destroy(&together);
}

static void sleep_msecs(unsigned msecs) { usleep(msecs * 1000); }

// ---- from thread to thread ---------------------------------------------------------------------

static void next_has_it(void) {
  mi_collect(true);
  EXPECT(are_parked(0));
  const int64_t threads = threads_now();
  run_threads(1);
  EXPECT(are_parked(1) && threads_now() == threads);
  const intptr_t slices = slices_in_use();
  mx_theap_t* const first = theap_of[0];
  for (int i = 0; i < 20; i++) {
    if (i % 2 == 0) free_left(0);  // while it is parked
    else memcpy(left[1], left[0], sizeof(left[0]));
    run_threads(1);
    // Where words are short, what others freed counts as in use until it is collected.
    EXPECT((!MX_64BIT || are_parked(1)) && threads_now() == threads);
    EXPECT(!MX_PARKS || theap_of[0] == first);
    if (i % 2 != 0) free_left(1);
  }
  EXPECT(!MX_PARKS || slices_in_use() <= slices + 2);
  free_left(0);
  mi_collect(true);
  EXPECT(are_parked(0));
}

// What a thread had said of guarded blocks for itself does not go on to the next one.
static void* has_own_rate(void* arg) {
  mi_heap_guarded_set_sample_rate(mi_heap_main(), 0, 0);
  for (int i = 0; i < 20; i++) mi_free(mi_malloc(40));
  theap_of[0] = mx_tls_theap;
  return arg;
}

static void* has_none(void* arg) {
  for (int i = 0; i < 20; i++) mi_free(mi_malloc(40));
  theap_of[1] = mx_tls_theap;
  return arg;
}

static int64_t guarded_now(void) {
  return mx_load_relaxed(&mx_subproc_main.main_heap.counters.malloc_guarded_count);
}

static void rates_are_their_own(void) {
  pthread_t thread;
  mi_collect(true);
  mi_option_set(mi_option_guarded_sample_rate, 1);
  int64_t before = guarded_now();
  EXPECT(pthread_create(&thread, NULL, has_own_rate, NULL) == 0);
  pthread_join(thread, NULL);
  EXPECT(guarded_now() == before && are_parked(1));
  before = guarded_now();
  EXPECT(pthread_create(&thread, NULL, has_none, NULL) == 0);
  pthread_join(thread, NULL);
  EXPECT(guarded_now() > before);
  EXPECT(!MX_PARKS || theap_of[0] == theap_of[1]);
  mi_option_set(mi_option_guarded_sample_rate, 0);
  mi_collect(true);
}

// What was counted ahead for a thread whose allocations are sampled ends with it.
static void* is_sampled(void* arg) {
  for (int i = 0; i < 20; i++) mi_free(mi_malloc(40));
  theap_of[0] = mx_tls_theap;
  EXPECT(theap_of[0]->sampling.is_on && theap_of[0]->sampling.credit > 0);
  return arg;
}

static void samples_are_of_a_thread(void) {
  pthread_t thread;
  mi_collect(true);
  mx_sample_set_profile((size_t)1 << 40);  // none comes
  EXPECT(pthread_create(&thread, NULL, is_sampled, NULL) == 0);
  pthread_join(thread, NULL);
  const mx_theap_sampling_t* const after = &theap_of[0]->sampling;
  EXPECT(are_parked(0) && !after->is_on && after->credit == 0 && after->seen == 0);
  mx_sample_set_profile(0);
}

// The records of a thread serve others when it has ended, whatever heaps it used.
static void* uses_a_heap(void* arg) {
  mi_free(mi_heap_malloc((mi_heap_t*)arg, 40));
  mi_free(mi_malloc(40));
  return NULL;
}

static void records_come_again(void) {
  mi_heap_t* const heap = mi_heap_new();
  int64_t before = 0;
  for (int i = 0; i < 170; i++) {
    pthread_t thread;
    if (i == 20) before = mx_load_relaxed(&mx_process_counters.metadata.current);
    EXPECT(pthread_create(&thread, NULL, uses_a_heap, heap) == 0);
    pthread_join(thread, NULL);
  }
  EXPECT(mx_load_relaxed(&mx_process_counters.metadata.current) == before);
  mi_heap_destroy(heap);
}

// Nobody finds its own id in a page that is parked, and all of them are owned.
static void pages_are_nobodys(void) {
  run_threads(1);
  for (size_t k = 0; k < LEFT; k++) {
    const mx_page_t* const page = page_of(left[0][k]);
    EXPECT(mx_load_relaxed(&page->owner) == 0);
    EXPECT(!MX_PARKS || (mx_load_relaxed(&page->remote) & MX_OWNED) != 0);
  }
  free_left(0);
  mi_collect(true);
}

// What a thread does after its end that tells of it.
static void* goes_on(void* arg) {
  (void)arg;
  fill(0);
  mi_thread_done();
  free_left(0);
  fill(0);
  return NULL;
}

static void thread_goes_on(void) {
  pthread_t thread;
  for (int i = 0; i < 5; i++) {
    EXPECT(pthread_create(&thread, NULL, goes_on, NULL) == 0);
    pthread_join(thread, NULL);
    free_left(0);
  }
  mi_collect(true);
  EXPECT(are_parked(0));
}

// ---- how many ----------------------------------------------------------------------------------

static void expect_parked_of_crowd(size_t count) {
  run_threads(CROWD);
  EXPECT(are_parked(count));
  for (size_t n = 0; n < CROWD; n++) free_left(n);
  mi_collect(true);
  EXPECT(are_parked(0));
}

static void* fills_much(void* arg) {
  (void)arg;
  void* blocks[100];
  for (int i = 0; i < 100; i++) blocks[i] = mi_malloc(200000);
  for (int i = 0; i < 100; i++) mi_free(blocks[i]);
  mi_free(mi_malloc(10));
  for (size_t size = 16; size < 400000; size += size / 8 + 16) mi_free(mi_malloc(size));
  return NULL;
}

static void bounds(void) {
  expect_parked_of_crowd(CROWD);
  mi_option_set(mi_option_theap_retain, 2);
  expect_parked_of_crowd(2);
  mi_option_set(mi_option_theap_retain, 0);
  expect_parked_of_crowd(0);
  mi_option_set(mi_option_theap_retain, 8);
  mi_option_set(mi_option_purge_delay, 0);
  expect_parked_of_crowd(0);
  mi_option_set(mi_option_purge_delay, 1000);
  for (int i = 0; i < 4; i++) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, fills_much, NULL) == 0);
    pthread_join(thread, NULL);
    size_t slices = 0;
    for (size_t k = 0; k < MX_PARKED_MAX; k++) {
      const mx_parked_t* const place = &mx_subproc_main.parked[k];
      if (mx_load_relaxed(&place->theap) != NULL) slices += mx_load_relaxed(&place->slices);
    }
    EXPECT((intptr_t)slices <= mx_arenas_may_wait(&mx_subproc_main.arenas));
  }
  mi_collect(true);
}

static void* fills_many_pages(void* arg) {
  void** const blocks = (void**)arg;
  for (size_t i = 0; i < 400; i++) blocks[i] = mi_malloc(100000);
  for (size_t i = 0; i < 400; i++) mi_free(i % 10 == 0 ? NULL : blocks[i]);
  return NULL;
}

// However much is in use, no thread begins with thousands of pages, which it would walk over.
static void large_is_not_parked(void) {
  static void* blocks[400];
  pthread_t thread;
  void* const huge = mi_malloc((size_t)1 << 30);  // of which a quarter may wait
  EXPECT(pthread_create(&thread, NULL, fills_many_pages, blocks) == 0);
  pthread_join(thread, NULL);
  EXPECT(parked() == 0);
  for (size_t i = 0; i < 400; i += 10) mi_free(blocks[i]);
  mi_free(huge);
  mi_collect(true);
}

#define MOST 128  // slices of a theap that is parked
#define PAGES (MOST + 3)
#define OF_PAGE (MX_SLICE_SIZE / 1000 + 1)

// Leaves one block of each of so many pages of a slice; `blocks` begins with them.
static void* fills_pages(void* arg) {
  void** const blocks = (void**)arg;
  const mx_page_t* last = NULL;
  size_t count = 0, pages = 0;
  for (const size_t most = (size_t)(uintptr_t)blocks[0]; pages < most; count++) {
    blocks[count] = mi_malloc(1000);
    pages += (page_of(blocks[count]) != last);
    last = page_of(blocks[count]);
  }
  const mx_page_t* of_last = NULL;
  for (size_t i = pages = 0; i < count; i++) {
    void* const p = blocks[i];
    if (page_of(p) == of_last) mi_free(p);
    else blocks[pages++] = p;
    of_last = page_of(blocks[pages - 1]);
  }
  return NULL;
}

// To the page: what waits is noted, and one page more does not.
static void as_many_pages_as_may_wait(void) {
  static void* blocks[PAGES * OF_PAGE];
  void* const huge = mi_malloc((size_t)1 << 30);
  for (size_t pages = MOST - 2; pages < PAGES; pages++) {
    pthread_t thread;
    blocks[0] = (void*)(uintptr_t)pages;
    EXPECT(pthread_create(&thread, NULL, fills_pages, blocks) == 0);
    pthread_join(thread, NULL);
    EXPECT(are_parked(pages <= MOST ? 1 : 0));
    EXPECT(parked() == 0 || mx_load_relaxed(&mx_subproc_main.parked[0].slices) == pages);
    for (size_t i = 0; i < pages; i++) mi_free(blocks[i]);
    mi_collect(true);
  }
  mi_free(huge);
}

#define IDLE 40

static sem_t is_idle, wake;

static void* idles(void* arg) {
  void* const block = mi_malloc(10);
  sem_post(&is_idle);
  sem_wait(&wake);
  mi_free(block);
  return arg;
}

// Threads that begin with others' pages, and do nothing, do not have all that threads between them
// ever needed.
static void idle_ones_hoard_little(void) {
  pthread_t threads[IDLE];
  sem_init(&is_idle, 0, 0);
  sem_init(&wake, 0, 0);
  const intptr_t before = slices_in_use();
  run_threads(1);
  const intptr_t of_one = slices_in_use() - before;
  free_left(0);
  for (size_t i = 0; i < IDLE; i++) {
    run_threads(1);
    free_left(0);
    EXPECT(pthread_create(&threads[i], NULL, idles, NULL) == 0);
    sem_wait(&is_idle);
  }
  EXPECT(slices_in_use() - before <= 2 * MX_PARKED_MAX * of_one + 2 * IDLE);
  for (size_t i = 0; i < IDLE; i++) sem_post(&wake);
  for (size_t i = 0; i < IDLE; i++) pthread_join(threads[i], NULL);
  mi_collect(true);
}

// No more threads than may be parked live with what they took.
static void one_taker(void) {
  pthread_t threads[2];
  sem_init(&is_idle, 0, 0);
  sem_init(&wake, 0, 0);
  mi_option_set(mi_option_theap_retain, 1);
  for (size_t i = 0; i < 2; i++) {
    run_threads(1);
    free_left(0);
    EXPECT(pthread_create(&threads[i], NULL, idles, NULL) == 0);
    sem_wait(&is_idle);
    EXPECT(are_parked(i));
  }
  for (size_t i = 0; i < 2; i++) sem_post(&wake);
  for (size_t i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  mi_option_set(mi_option_theap_retain, 8);
  mi_collect(true);
}

// ---- when memory is wanted ---------------------------------------------------------------------

// Slow allocations: sizes that this thread has no page of.
static void make_visits(void) {
  void* blocks[80];
  for (size_t i = 0; i < 80; i++) blocks[i] = mi_malloc(9000 + i * 1000);
  for (size_t i = 0; i < 80; i++) mi_free(blocks[i]);
}

static void time_is_up(void) {
  run_threads(2);
  mx_parked_give_up(&mx_subproc_main, false);
  EXPECT(are_parked(2));
  for (size_t n = 0; n < 2; n++) free_left(n);
  sleep_msecs(300);
  const intptr_t before = slices_in_use();
  for (int i = 0; i < 10 && parked() > 0; i++) make_visits();
  EXPECT(are_parked(0));
  mi_collect(true);
  EXPECT(!MX_PARKS || slices_in_use() < before);
  // Another thread's end is enough, too, which parks itself.
  run_threads(2);
  for (size_t n = 0; n < 2; n++) free_left(n);
  sleep_msecs(300);
  run_threads(1);
  EXPECT(are_parked(1));
  free_left(0);
  mi_collect(true);
}

static bool count_area(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                       void* arg) {
  (void)heap, (void)area, (void)size;
  *(size_t*)arg += (block != NULL);
  return true;
}

static void memory_is_wanted(void) {
  size_t seen = 0;
  run_threads(2);
  mi_option_set(mi_option_visit_abandoned, 1);
  EXPECT(mi_abandoned_visit_blocks(mi_subproc_main(), -1, true, count_area, &seen));
  EXPECT(seen == 2 * LEFT && are_parked(0));
  for (size_t n = 0; n < 2; n++) free_left(n);
  run_threads(2);
  mx_alloc_on_pressure(mx_thread_theap());
  EXPECT(are_parked(0));
  for (size_t n = 0; n < 2; n++) free_left(n);
}

static void background(void) {
  mi_option_set(mi_option_background_purge, 1);
  make_visits();
  for (int round = 0; round < 2; round++) {
    run_threads(2);
    for (int i = 0; i < 200 && parked() > 0; i++) sleep_msecs(50);
    EXPECT(are_parked(0));
    for (size_t n = 0; n < 2; n++) free_left(n);
  }
  mi_option_set(mi_option_background_purge, 0);
}

static void subprocs(bool destroys) {
  in_subproc = mi_subproc_new();
  const mx_subproc_t* const subproc = (const mx_subproc_t*)in_subproc.opaque;
  run_threads(2);
  EXPECT(parked_in(subproc) == (MX_PARKS ? 2 : 0) && are_parked(0));
  run_threads(1);
  EXPECT(parked_in(subproc) == (MX_PARKS ? 2 : 0) && are_parked(0));
  if (destroys) mi_subproc_destroy(in_subproc);
  else mi_subproc_delete(in_subproc);
  EXPECT(parked_in(subproc) == 0 && are_parked(0));
  in_subproc.opaque = NULL;
  for (size_t n = 0; !destroys && n < 2; n++) free_left(n);
}

static void* joins(void* arg) {
  mi_free(mi_malloc(5000));  // the C library, say, which has no part in this
  mi_subproc_add_current_thread(in_subproc);
  *(bool*)arg = (mi_subproc_current().opaque == in_subproc.opaque);
  fill(1);
  free_left(1);
  return NULL;
}

// What another thread left in its pages keeps no thread from going to a sub-process.
static void goes_to_subproc(void) {
  bool has_joined = false;
  pthread_t thread;
  run_threads(1);
  in_subproc = mi_subproc_new();
  const mx_subproc_t* const subproc = (const mx_subproc_t*)in_subproc.opaque;
  EXPECT(pthread_create(&thread, NULL, joins, &has_joined) == 0);
  pthread_join(thread, NULL);
  EXPECT(has_joined && are_parked(0) && parked_in(subproc) == MX_PARKS);
  free_left(0);
  mi_subproc_destroy(in_subproc);
  in_subproc.opaque = NULL;
}

static void* joins_pool(void* arg) {
  mi_thread_set_in_threadpool();
  for (size_t k = 0; k < LEFT; k++) {
    const mx_page_t* const page = page_of(left[0][k]);
    *(size_t*)arg += (mx_load_relaxed(&page->owner) != 0);
  }
  return NULL;
}

// Nor has a thread of a pool what others left.
static void pool_takes_none(void) {
  size_t owned = 0;
  pthread_t thread;
  run_threads(1);
  EXPECT(pthread_create(&thread, NULL, joins_pool, &owned) == 0);
  pthread_join(thread, NULL);
  EXPECT(owned == 0);
  free_left(0);
  mi_collect(true);
}

// ---- fork --------------------------------------------------------------------------------------

static sem_t leave;

static void* waits(void* arg) {
  fill(2);
  sem_post((sem_t*)arg);
  sem_wait(&leave);
  return NULL;
}

static void child_is_whole(void) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(20);
    mx_call_do_pending();  // before a call those that are not there are counted
    const int64_t threads = threads_now();
    EXPECT(threads == 1);
    run_threads(1);
    EXPECT(threads_now() == threads);
    for (size_t n = 0; n < 2; n++) free_left(n);
    mi_collect(true);
    EXPECT(are_parked(0));
    fflush(stdout);
    _exit(failures != 0);
  }
  int status = 1;
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
}

static void forks(void) {
  pthread_t thread;
  sem_t ready;
  run_threads(2);
  for (size_t k = 0; k < LEFT; k += 2) mi_free(left[0][k]);
  const size_t before = parked();
  child_is_whole();
  sem_init(&ready, 0, 0);
  sem_init(&leave, 0, 0);
  EXPECT(pthread_create(&thread, NULL, waits, &ready) == 0);
  sem_wait(&ready);
  run_threads(2);
  EXPECT(parked() == before);
  child_is_whole();
  sem_post(&leave);
  pthread_join(thread, NULL);
  mi_collect(true);
}

int main(void) {
  mi_free(mi_malloc(10));
  next_has_it();
  rates_are_their_own();
  samples_are_of_a_thread();
  records_come_again();
  pages_are_nobodys();
  thread_goes_on();
  bounds();
  large_is_not_parked();
  as_many_pages_as_may_wait();
  idle_ones_hoard_little();
  one_taker();
  time_is_up();
  memory_is_wanted();
  subprocs(true);
  subprocs(false);
  goes_to_subproc();
  pool_takes_none();
  forks();
  background();
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
