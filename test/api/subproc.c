// SPDX-License-Identifier: MIT
// Sub-processes: what a thread of one allocates lies in its own arenas, is freed from anywhere, and
// goes at once with it, or is handed to the main one.
#include <errno.h>
#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api_check.h"

static mi_subproc_id_t none(void) {
  mi_subproc_id_t id = {NULL};
  return id;
}

static bool is_same(mi_subproc_id_t a, mi_subproc_id_t b) { return a.opaque == b.opaque; }

static bool count_heap(mi_heap_t* heap, void* arg) {
  CHECK(heap != NULL);
  return --*(int*)arg > 0;
}

static int heaps_in(mi_subproc_id_t id) {
  int left = 1000;
  CHECK(mi_subproc_visit_heaps(id, &count_heap, &left));
  return 1000 - left;
}

// ---- a thread in a sub-process -----------------------------------------------------------------

typedef struct job_s {
  mi_subproc_id_t id;
  mi_heap_t* heap;       // made inside
  mi_heap_t* main_heap;  // of the sub-process
  bool has_allocated;    // before, of which nothing is left
  void* blocks[6];
} job_t;

static const size_t sizes[] = {16, 100, 5000, 100000, 1000000, SIZE_MAX > 0xFFFFFFFFu ? (size_t)3000 << 20 : (size_t)100 << 20};

static int refusals;  // of threads that stay where they are

static void count_refusals(const char* text, void* arg) {
  (void)arg;
  refusals += (strstr(text, "stays in its sub-process") != NULL);
}

static void* run_inside(void* arg) {
  job_t* const job = (job_t*)arg;
  const int before = refusals;
  if (job->has_allocated) mi_free(mi_malloc(100));
  mi_subproc_add_current_thread(job->id);
  CHECK(is_same(mi_subproc_current(), job->id) && refusals == before);
  mi_subproc_add_current_thread(mi_subproc_main());  // too late: a warning, and nothing happens
  CHECK(is_same(mi_subproc_current(), job->id) && refusals == before + 1);
  job->main_heap = mi_heap_main();
  job->heap = mi_heap_new();
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    job->blocks[i] = (i % 2 == 0 ? mi_malloc(sizes[i]) : mi_heap_malloc(job->heap, sizes[i]));
    CHECK_ROW(job->blocks[i] != NULL, i);
    memset(job->blocks[i], (int)i, 16);
    CHECK_ROW(mi_heap_of(job->blocks[i]) == (i % 2 == 0 ? job->main_heap : job->heap), i);
  }
  for (int i = 0; i < 5000; i++) mi_free(mi_malloc((size_t)i));
  return NULL;
}

static void run(job_t* job) {
  pthread_t t;
  CHECK(pthread_create(&t, NULL, &run_inside, job) == 0);
  pthread_join(t, NULL);
  CHECK(job->main_heap != mi_heap_main());
}

static void test_destroy(void) {
  for (int round = 0; round < 30; round++) {
    job_t job;
    job.id = mi_subproc_new();
    job.has_allocated = (round % 3 == 0);
    CHECK(job.id.opaque != NULL && !is_same(job.id, mi_subproc_main()));
    run(&job);
    CHECK(heaps_in(job.id) == 2);
    int first = 1;
    CHECK(!mi_subproc_visit_heaps(job.id, &count_heap, &first));
    if (round % 2 == 0) mi_free(job.blocks[2]);  // from a thread of another one
    mi_subproc_destroy(job.id);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
      CHECK_ROW(!mi_any_heap_contains(job.blocks[i]), i);
    }
  }
}

static void test_delete(void) {
  for (int round = 0; round < 10; round++) {
    job_t job;
    job.id = mi_subproc_new();
    job.has_allocated = false;
    run(&job);
    mi_stats_t stats;
    mi_stats_init(&stats);
    CHECK(mi_subproc_stats_get(job.id, &stats) && stats.pages.current > 0);
    mi_subproc_delete(job.id);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
      CHECK_ROW(mi_heap_of(job.blocks[i]) == mi_heap_main(), i);
      CHECK_ROW(((unsigned char*)job.blocks[i])[15] == i, i);
      mi_free(job.blocks[i]);
    }
  }
}

// ---- threads that stay --------------------------------------------------------------------------

// One that has blocks of a heap of its own, or had.
static void* run_with_heap(void* arg) {
  mi_subproc_id_t id = *(mi_subproc_id_t*)arg;
  mi_heap_t* const heap = mi_heap_new();
  CHECK(heap != NULL && mi_heap_malloc(heap, 100) != NULL);
  const int before = refusals;
  mi_subproc_add_current_thread(id);
  CHECK(is_same(mi_subproc_current(), mi_subproc_main()) && refusals == before + 1);
  mi_heap_destroy(heap);
  mi_subproc_add_current_thread(id);
  CHECK(is_same(mi_subproc_current(), id));
  mi_free(mi_malloc(100));
  return NULL;
}

static void test_with_heap(void) {
  mi_subproc_id_t id = mi_subproc_new();
  pthread_t t;
  CHECK(pthread_create(&t, NULL, &run_with_heap, &id) == 0);
  pthread_join(t, NULL);
  mi_subproc_destroy(id);
}

// One that is still there when its sub-process goes, against the contract, is of the main one then,
// until the process ends.
static pthread_barrier_t stays;

static void* run_and_stay(void* arg) {
  mi_subproc_add_current_thread(*(mi_subproc_id_t*)arg);
  void* const p = mi_malloc(100);
  CHECK(p != NULL);
  pthread_barrier_wait(&stays);
  pthread_barrier_wait(&stays);  // it is gone
  mi_free(p);
  CHECK(is_same(mi_subproc_current(), mi_subproc_main()));
  mi_free(mi_malloc(100));
  pthread_barrier_wait(&stays);
  return NULL;
}

static void* run_for_good(void* arg) {
  mi_subproc_add_current_thread(*(mi_subproc_id_t*)arg);
  CHECK(mi_malloc(100) != NULL);
  pthread_barrier_wait(&stays);
  for (;;) pause();
}

static void test_staying(void) {
  pthread_t t;
  CHECK(pthread_barrier_init(&stays, NULL, 2) == 0);
  mi_subproc_id_t id = mi_subproc_new();
  CHECK(pthread_create(&t, NULL, &run_and_stay, &id) == 0);
  pthread_barrier_wait(&stays);
  mi_subproc_delete(id);
  pthread_barrier_wait(&stays);
  pthread_barrier_wait(&stays);
  pthread_join(t, NULL);
  id = mi_subproc_new();
  CHECK(pthread_create(&t, NULL, &run_for_good, &id) == 0);
  pthread_barrier_wait(&stays);
  mi_subproc_delete(id);
  CHECK(mi_subproc_new().opaque != NULL);  // and one that is there at the end
  mi_option_set(mi_option_destroy_on_exit, 1);
}

// The record of one that was deleted is the next one's: ever new ones take no ever more memory.
static void test_serves_again(void) {
  const mi_subproc_id_t first = mi_subproc_new();
  mi_subproc_delete(first);
  const mi_subproc_id_t next = mi_subproc_new();
  CHECK(is_same(first, next));
  mi_subproc_delete(next);
}

// ---- what is left out --------------------------------------------------------------------------

static void test_arguments(void) {
  CHECK(is_same(mi_subproc_current(), mi_subproc_main()));
  mi_subproc_destroy(none());
  mi_subproc_destroy(mi_subproc_main());
  mi_subproc_delete(none());
  mi_subproc_delete(mi_subproc_main());
  int left = 5;
  CHECK(!mi_subproc_visit_heaps(none(), &count_heap, &left));
  void* const p = mi_malloc(100);
  mi_subproc_id_t id = mi_subproc_new();
  mi_subproc_add_current_thread(id);  // this thread has allocated
  CHECK(is_same(mi_subproc_current(), mi_subproc_main()));
  mi_subproc_add_current_thread(none());
  mi_subproc_destroy(id);
  mi_free(p);
}

static bool count_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                        void* arg) {
  (void)heap;
  (void)area;
  (void)size;
  if (block != NULL) ++*(int*)arg;
  return true;
}

static void* leave_three(void* heap) {
  for (int i = 0; i < 3; i++) CHECK(mi_heap_malloc((mi_heap_t*)heap, 500) != NULL);
  return NULL;
}

static void test_abandoned(void) {
  job_t job;
  job.id = mi_subproc_new();
  job.has_allocated = false;
  run(&job);
  int blocks = 0;
  CHECK(!mi_abandoned_visit_blocks(job.id, -1, true, &count_block, &blocks) && blocks == 0);
  mi_option_set(mi_option_visit_abandoned, 1);
  CHECK(mi_abandoned_visit_blocks(job.id, -1, true, &count_block, &blocks));
  CHECK(blocks == 4);  // all but the two huge ones, which belong to no thread ever
  blocks = 0;
  CHECK(mi_abandoned_visit_blocks(job.id, 9, true, &count_block, &blocks) && blocks == 0);
  mi_subproc_destroy(job.id);
  // Of heaps with another tag it sees nothing.
  pthread_t thread;
  mi_heap_t* const tagged = mi_heap_new_ex(5, true, NULL);
  int all = 0, of_tag = 0, of_none = 0;
  CHECK(pthread_create(&thread, NULL, &leave_three, tagged) == 0);
  pthread_join(thread, NULL);
  CHECK(mi_abandoned_visit_blocks(mi_subproc_main(), -1, true, &count_block, &all));
  CHECK(mi_abandoned_visit_blocks(mi_subproc_main(), 5, true, &count_block, &of_tag));
  CHECK(mi_abandoned_visit_blocks(mi_subproc_main(), 0, true, &count_block, &of_none));
  CHECK(of_tag == 3 && all == of_none + of_tag);
  mi_heap_destroy(tagged);
}

// A thread whose sub-process is gone may end at once.
static void* end_orphaned(void* arg) {
  mi_subproc_id_t id = *(mi_subproc_id_t*)arg;
  mi_subproc_add_current_thread(id);
  mi_free(mi_malloc(100));
  mi_subproc_destroy(id);
  return NULL;
}

// Or it goes on in the main one.
static void* run_orphan(void* arg) {
  end_orphaned(arg);
  mi_stats_t stats;
  mi_stats_init(&stats);
  CHECK(is_same(mi_subproc_current(), mi_subproc_main()) && mi_stats_get(&stats));
  void* const p = mi_malloc(100);
  CHECK(p != NULL && is_same(mi_subproc_current(), mi_subproc_main()));
  CHECK(mi_heap_of(p) == mi_heap_main());
  mi_free(p);
  return NULL;
}

static void test_orphan(void) {
  static void* (*const ways[])(void*) = {run_orphan, end_orphaned};
  for (size_t i = 0; i < COUNT_OF(ways); i++) {
    mi_subproc_id_t id = mi_subproc_new();
    pthread_t t;
    CHECK(pthread_create(&t, NULL, ways[i], &id) == 0);
    pthread_join(t, NULL);
  }
}

static void count_error(int err, void* arg) {
  CHECK(err == EINVAL);
  ++*(int*)arg;
}

// One that was given up is said to be so by whatever is asked of it, and nothing else happens.
static void test_given_up(void) {
  static mi_stats_t stats;
  static char text[1 << 16];
  int errors = 0;
  mi_register_error(&count_error, &errors);
  for (size_t i = 0; i < 2; i++) {
    mi_subproc_id_t id = mi_subproc_new();
    (i == 0 ? mi_subproc_destroy : mi_subproc_delete)(id);
    mi_stats_init(&stats);
    int left = 5, expected = errors + 8;
    mi_subproc_destroy(id);
    mi_subproc_delete(id);
    mi_subproc_add_current_thread(id);
    CHECK_ROW(!mi_subproc_stats_get(id, &stats), i);
    CHECK_ROW(!mi_subproc_stats_get_exclusive(id, &stats), i);
    CHECK_ROW(mi_subproc_stats_get_json(id, sizeof text, text) == NULL, i);
    CHECK_ROW(!mi_subproc_visit_heaps(id, &count_heap, &left) && left == 5, i);
    CHECK_ROW(!mi_abandoned_visit_blocks(id, -1, false, &count_block, &left), i);
    CHECK_ROW(errors == expected, i);
    mi_subproc_id_t next = mi_subproc_new();  // whatever takes the record's place is sound
    CHECK_ROW(mi_subproc_stats_get(next, &stats), i);
    mi_subproc_delete(next);
  }
  mi_register_error(NULL, NULL);
}

// ---- memory of the program's -------------------------------------------------------------------

#define LENT_SIZE ((size_t)64 << 20)

typedef struct lent_s {
  mi_subproc_id_t id;
  char* memory;
} lent_t;

static void* leave_blocks(void* arg) {
  const lent_t* const lent = (const lent_t*)arg;
  mi_subproc_add_current_thread(lent->id);
  CHECK(mi_manage_os_memory(lent->memory, LENT_SIZE, true, false, true, -1));
  static const size_t left[] = {100, 20000, 600000, 1 << 20};
  for (size_t i = 0; i < COUNT_OF(left); i++) {
    char* const p = (char*)mi_malloc(left[i]);
    CHECK_ROW(p >= lent->memory && p < lent->memory + LENT_SIZE, i);
  }
  return NULL;
}

// All of it can be written again, whatever was left in it.
static void test_lent_memory(void) {
  lent_t lent = {mi_subproc_new(), NULL};
  lent.memory = (char*)mmap(NULL, LENT_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                            -1, 0);
  CHECK(lent.memory != (char*)MAP_FAILED);
  pthread_t t;
  CHECK(pthread_create(&t, NULL, &leave_blocks, &lent) == 0);
  pthread_join(t, NULL);
  mi_subproc_destroy(lent.id);
  memset(lent.memory, 1, LENT_SIZE);
  munmap(lent.memory, LENT_SIZE);
}

int main(void) {
  mi_option_set(mi_option_show_errors, 1);  // to the test alone
  mi_option_set(mi_option_max_warnings, 1000);
  mi_register_output(&count_refusals, NULL);
  test_arguments();
  test_destroy();
  test_delete();
  test_abandoned();
  test_orphan();
  test_given_up();
  test_lent_memory();
  test_with_heap();
  test_serves_again();
  test_staying();
  return 0;
}
