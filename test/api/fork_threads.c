// SPDX-License-Identifier: MIT
// fork in a process whose other threads allocate, free, make and give up heaps all the time: the
// child can do everything at once, and frees what the threads that it lacks have left. An argument
// says how many forks, which take a second each where a processor is emulated.
#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api_check.h"

enum { THREADS = 3, BLOCKS = 256, CHILD_SECONDS = 20 };

static const size_t sizes[] = {16, 40, 64, 200, 1000, 3000, 20000, 90000, 600000};

// Each block begins with its size; all of it is a pattern of the size.
typedef struct record_s {
  size_t size;
  unsigned char bytes[];
} record_t;

static record_t* make(mi_heap_t* heap, size_t size) {
  record_t* const r = (record_t*)mi_heap_malloc(heap, sizeof(record_t) + size);
  CHECK(r != NULL);
  memset(r->bytes, (int)(size * 31 & 0xFF), size);
  r->size = size;
  return r;
}

static bool is_whole(const record_t* r) {
  for (size_t i = 0; i < r->size; i++) {
    if (r->bytes[i] != (r->size * 31 & 0xFF)) return false;
  }
  return true;
}

static _Atomic(record_t*) shared[THREADS][BLOCKS];
static atomic_int stop;

static void* run(void* arg) {
  const size_t me = (size_t)(uintptr_t)arg;
  uint64_t random = 88172645463325252ull + me;
  for (size_t turn = 0; !atomic_load_explicit(&stop, memory_order_relaxed); turn++) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    // Everybody fills its own row and takes from any.
    const size_t i = random % BLOCKS;
    const size_t kind = ((random >> 20 & 63) < 60 ? random >> 26 & 3 : random >> 30 & 7);
    record_t* const fresh = make(NULL, sizes[kind]);
    record_t* old = atomic_exchange(&shared[me][i], fresh);
    if (old != NULL) mi_free(old);
    old = atomic_exchange(&shared[(me + 1) % THREADS][(i * 7) % BLOCKS], NULL);
    if (old != NULL) mi_free(old);
    if (turn % 64 == 0) {
      mi_heap_t* const heap = mi_heap_new();
      for (size_t k = 0; k < 20; k++) make(heap, sizes[k % 6]);
      if (turn % 128 == 0) {
        mi_heap_destroy(heap);
      } else {
        record_t* const kept = make(heap, 77);
        mi_heap_destroy(mi_heap_new());
        mi_free(kept);
        mi_heap_destroy(heap);
      }
    }
    if (turn % 1000 == 0) mi_collect(turn % 2000 == 0);
  }
  return NULL;
}

static void* run_in_child(void* arg) {
  record_t* blocks[200];
  (void)arg;
  for (size_t i = 0; i < COUNT_OF(blocks); i++) blocks[i] = make(NULL, sizes[i % 9]);
  for (size_t i = 0; i < COUNT_OF(blocks); i++) {
    CHECK(is_whole(blocks[i]));
    mi_free(blocks[i]);
  }
  return NULL;
}

// Live blocks never share memory: each is filled with its own pattern, then all are looked at.
static void live_in_child(mi_heap_t* heap, record_t* const* own, size_t own_count) {
  alarm(CHILD_SECONDS);
  record_t* fresh[1000];
  for (size_t i = 0; i < COUNT_OF(fresh); i++) fresh[i] = make(NULL, sizes[i % 5] + i % 50);
  for (size_t t = 0; t < THREADS; t++) {
    for (size_t i = 0; i < BLOCKS; i++) {
      record_t* const left = atomic_exchange(&shared[t][i], NULL);
      if (left == NULL) continue;
      CHECK(is_whole(left));
      mi_free(left);
    }
  }
  for (size_t i = 0; i < own_count; i++) CHECK(is_whole(own[i]));
  pthread_t threads[4];
  for (size_t t = 0; t < 4; t++) CHECK(pthread_create(&threads[t], NULL, &run_in_child, NULL) == 0);
  for (size_t i = 0; i < COUNT_OF(fresh); i++) CHECK(is_whole(fresh[i]));
  for (size_t t = 0; t < 4; t++) pthread_join(threads[t], NULL);
  for (size_t i = 0; i < COUNT_OF(fresh); i++) {
    CHECK(is_whole(fresh[i]));
    mi_free(fresh[i]);
  }
  record_t* const in_heap = make(heap, 500);
  CHECK(mi_heap_of(in_heap) == heap);
  mi_heap_delete(heap);
  CHECK(is_whole(in_heap));
  mi_free(in_heap);
  mi_heap_t* const another = mi_heap_new();
  make(another, 3000);
  mi_heap_destroy(another);
  mi_collect(true);
  for (size_t i = 0; i < own_count; i++) mi_free(own[i]);
  // A child may have children.
  const pid_t grandchild = fork();
  if (grandchild == 0) {
    mi_free(make(NULL, 100));
    _exit(0);
  }
  int status = 1;
  CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
  _exit(0);
}

static void* be_brief(void* arg) {
  mi_free(make(NULL, sizes[2]));
  return arg;
}

static void* start_others(void* arg) {
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, &be_brief, NULL) == 0) pthread_join(thread, NULL);
  }
  return arg;
}

static int64_t threads_known(void) {
  mi_stats_t_decl(stats);
  mi_free(make(NULL, 100));
  return mi_stats_get(&stats) ? stats.threads.current : -1;
}

// While threads begin and end, a child knows of one thread, its own.
static void fork_among_ends(int forks) {
  pthread_t threads[2];
  atomic_store(&stop, 0);
  for (int t = 0; t < 2; t++) CHECK(pthread_create(&threads[t], NULL, &start_others, NULL) == 0);
  for (int round = 0; round < forks; round++) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(threads_known() == 1 ? 0 : 1);
    int status = 1;
    CHECK_ROW(waitpid(child, &status, 0) == child && status == 0, round);
  }
  atomic_store(&stop, 1);
  for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}

// ---- pages that a heap's record keeps ----------------------------------------------------------

static atomic_int is_there;

static void* stay(void* arg) {
  void* const p = mi_malloc(100);
  atomic_store(&is_there, 1);
  while (!atomic_load(&stop)) usleep(1000);
  mi_free(p);
  return arg;
}

enum { KEPT_SIZES = 8, KEPT_BLOCKS = 400 };

static void use_kept(mi_heap_t* heap) {
  static record_t* blocks[KEPT_SIZES][KEPT_BLOCKS];
  alarm(CHILD_SECONDS);
  for (size_t i = 0; i < KEPT_SIZES; i++) {
    for (size_t k = 0; k < KEPT_BLOCKS; k++) {
      blocks[i][k] = make(heap, 64 * i + 40);
      blocks[i][k]->size = k;
    }
  }
  for (size_t i = 0; i < KEPT_SIZES; i++) {
    for (size_t k = 0; k < KEPT_BLOCKS; k++) CHECK(blocks[i][k]->size == k);
    for (size_t k = 0; k < KEPT_BLOCKS; k++) mi_free(blocks[i][k]);
  }
  mi_heap_destroy(heap);
  mi_collect(true);
  _exit(0);
}

// A heap in the record of a destroyed one begins with its pages, which nobody seems to have. Those
// are no pages that a vanished thread left.
static void fork_beside_kept_pages(void) {
  pthread_t other;
  atomic_store(&stop, 0);
  CHECK(pthread_create(&other, NULL, &stay, NULL) == 0);
  while (!atomic_load(&is_there)) usleep(1000);
  mi_collect(true);  // what other records keep leaves no room for more
  mi_heap_t* heap = mi_heap_new();
  for (size_t i = 0; i < KEPT_SIZES * 20; i++) make(heap, 64 * (i % KEPT_SIZES) + 40);
  mi_heap_destroy(heap);
  heap = mi_heap_new();
  make(heap, 2000);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) use_kept(heap);
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  mi_heap_destroy(heap);
  atomic_store(&stop, 1);
  pthread_join(other, NULL);
}

// ---- pages that a heap's record gives back -----------------------------------------------------

enum { DROP_ROOM = 64 << 20, DROP_BLOCKS = 40 };

static atomic_int gives_back, given, goes_on;  // given: pieces; goes_on: the fork is over
static mi_arena_id_t apart;

// The thread stays in the middle, when one piece is free already.
static bool mi_cdecl commit_slowly(bool commit, void* start, size_t size, bool* is_zero,
                                   void* arg) {
  (void)arg;
  if (!commit && atomic_load(&gives_back) && atomic_fetch_add(&given, 1) == 1) {
    while (!atomic_load(&goes_on)) usleep(1000);
  }
  if (!commit) madvise(start, size, MADV_DONTNEED);
  if (is_zero != NULL) *is_zero = true;
  return true;
}

static void* give_back(void* arg) {
  mi_heap_t* heap = mi_heap_new();
  for (size_t i = 0; i < KEPT_SIZES * 3; i++) make(heap, (size_t)16 << (i % KEPT_SIZES));
  mi_heap_destroy(heap);
  atomic_store(&gives_back, 1);
  heap = mi_heap_new_in_arena(apart);  // in the same record
  atomic_store(&gives_back, 0);
  atomic_fetch_add(&given, 100);  // where records keep nothing
  mi_heap_destroy(heap);
  return arg;
}

// What the other thread gave back is this one's by now, and is no page of that record any more.
static void fork_amid_giving_back(void) {
  record_t* blocks[DROP_BLOCKS];
  mi_arena_id_t id;
  pthread_t other;
  char* const room = (char*)mmap(NULL, 2 * (size_t)DROP_ROOM, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(room != (char*)MAP_FAILED);
  const long delay = mi_option_get(mi_option_purge_delay);
  mi_option_set(mi_option_purge_delay, 0);
  mi_collect(true);
  CHECK(mi_manage_memory(room, DROP_ROOM, false, false, true, -1, false, &commit_slowly, NULL,
                         &id));
  CHECK(mi_manage_memory(room + DROP_ROOM, DROP_ROOM, true, false, true, -1, true, NULL, NULL,
                         &apart));
  CHECK(pthread_create(&other, NULL, &give_back, NULL) == 0);
  while (atomic_load(&given) < 2) usleep(1000);
  for (size_t i = 0; i < DROP_BLOCKS; i++) blocks[i] = make(NULL, 700 + 100 * i);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(CHILD_SECONDS);
    mi_free(make(NULL, 40000));
    for (size_t i = 0; i < DROP_BLOCKS; i++) {
      CHECK(mi_usable_size(blocks[i]) > 0 && is_whole(blocks[i]));
    }
    _exit(0);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  atomic_store(&goes_on, 1);
  pthread_join(other, NULL);
  for (size_t i = 0; i < DROP_BLOCKS; i++) mi_free(blocks[i]);
  mi_option_set(mi_option_purge_delay, delay);
}

int main(int argc, char** argv) {
  const int forks = argc > 1 ? atoi(argv[1]) : 50;
  pthread_t threads[THREADS];
  for (size_t t = 0; t < THREADS; t++) {
    CHECK(pthread_create(&threads[t], NULL, &run, (void*)(uintptr_t)t) == 0);
  }
  mi_heap_t* const heap = mi_heap_new();
  record_t* own[100];
  for (size_t i = 0; i < COUNT_OF(own); i++) own[i] = make(i % 2 == 0 ? heap : NULL, sizes[i % 6]);
  for (int round = 0; round < forks; round++) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) live_in_child(heap, own, COUNT_OF(own));
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_ROW(WIFEXITED(status) && WEXITSTATUS(status) == 0, round);
    mi_free(make(NULL, 64));
  }
  atomic_store(&stop, 1);
  for (size_t t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
  for (size_t i = 0; i < COUNT_OF(own); i++) CHECK(is_whole(own[i]));
  fork_among_ends(5 * forks);
  fork_beside_kept_pages();
  fork_amid_giving_back();
  return 0;
}
