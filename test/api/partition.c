// SPDX-License-Identifier: MIT
// Heaps whose addresses no other heap ever has, in hardened builds: under churn, by threads, after
// their ends, in a forked child. In other builds there are no partitions.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

#define SLICE_SHIFT 16
#define LIVE 400
#define THREADS 4
#define SHORT_HEAPS 2000

// ---- which heap had which slices -----------------------------------------------------------------

typedef struct seen_s {
  uintptr_t slice;
  size_t partition;
} seen_t;

#define PLACES ((size_t)1 << 20)

static seen_t* seen;
static size_t seen_count;
static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;

// Notes which partition has the slice; false when another partition had it before.
static int note_slice(uintptr_t slice, size_t partition) {
  size_t i = (size_t)(slice * 0x9E3779B97F4A7C15u >> 20) % PLACES;
  for (; seen[i].slice != 0; i = (i + 1) % PLACES) {
    if (seen[i].slice == slice) return seen[i].partition == partition;
  }
  if (++seen_count == PLACES / 2) {
    fprintf(stderr, "the table is too small\n");
    exit(1);
  }
  seen[i].slice = slice;
  seen[i].partition = partition;
  return 1;
}

// All of a block lies where only its partition ever was.
static void note(const void* p, size_t size, size_t partition) {
  if (p == NULL || !MX_ISOLATE) return;
  const uintptr_t first = (uintptr_t)p >> SLICE_SHIFT;
  const uintptr_t last = ((uintptr_t)p + (size > 0 ? size - 1 : 0)) >> SLICE_SHIFT;
  pthread_mutex_lock(&seen_lock);
  for (uintptr_t slice = first; slice <= last; slice++) {
    EXPECT_AT(slice, note_slice(slice, partition));
  }
  pthread_mutex_unlock(&seen_lock);
}

// ---- churn -------------------------------------------------------------------------------------

static uint64_t next_random(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static size_t random_size(uint64_t* state) {
  const uint64_t kind = next_random(state) % 100;
  if (kind < 60) return 1 + (size_t)next_random(state) % 1000;
  if (kind < 85) return 1 + (size_t)next_random(state) % 16000;
  if (kind < 97) return 1 + (size_t)next_random(state) % 190000;
  return 1 + (size_t)next_random(state) % 3000000;
}

typedef struct churn_s {
  mi_heap_t* heap;
  size_t partition;
  uint64_t random;
  void* blocks[LIVE];
} churn_t;

static void* allocate(churn_t* c, size_t size) {
  switch (next_random(&c->random) % 8) {
    case 0: return mi_heap_zalloc(c->heap, size);
    case 1: return mi_heap_malloc_aligned(c->heap, size, 256);
    case 2: return mi_heap_malloc_aligned(c->heap, size, (size_t)1 << 17);
    default: return mi_heap_malloc(c->heap, size);
  }
}

static void churn(churn_t* c, int steps) {
  for (int n = 0; n < steps; n++) {
    void** const place = &c->blocks[next_random(&c->random) % LIVE];
    size_t size = random_size(&c->random);
    if (*place != NULL && next_random(&c->random) % 4 == 0) {
      *place = mi_heap_realloc(c->heap, *place, size);
    } else {
      mi_free(*place);
      *place = allocate(c, size);
    }
    if (!EXPECT(*place != NULL)) return;
    memset(*place, 0x5A, size);
    note(*place, size, c->partition);
    EXPECT(mi_partition_of(*place) == (MX_ISOLATE ? c->partition : 0));
    EXPECT(mi_partition_of((char*)*place + size / 2) == (MX_ISOLATE ? c->partition : 0));
  }
}

static void churn_begin(churn_t* c, uint64_t seed) {
  memset(c, 0, sizeof(*c));
  c->random = seed;
  c->heap = mi_heap_new();
  void* const p = mi_heap_malloc(c->heap, 10);
  c->partition = mi_partition_of(p);
  EXPECT((c->partition != 0) == MX_ISOLATE);
  note(p, 10, c->partition);
  mi_free(p);
}

static void churn_main(int steps, uint64_t seed) {
  static churn_t c;
  c.random += seed;
  c.heap = mi_heap_main();
  churn(&c, steps);
}

// ---- tests -------------------------------------------------------------------------------------

static void test_questions(void) {
  static int variable;
  EXPECT(mi_partition_of(NULL) == 0 && mi_partition_of(&variable) == 0);
  void* const p = mi_malloc(100);
  EXPECT(mi_partition_of(p) == 0);
  mi_free(p);
  mi_heap_t *const a = mi_heap_new(), *const b = mi_heap_new();
  void *const pa = mi_heap_malloc(a, 100), *const pb = mi_heap_malloc(b, 100);
  void* const large = mi_heap_malloc(a, 500000);
  if (MX_ISOLATE) {
    EXPECT(mi_partition_of(pa) != 0 && mi_partition_of(pa) != mi_partition_of(pb));
    EXPECT(mi_partition_of(large) == mi_partition_of(pa));
  } else {
    EXPECT(mi_partition_of(pa) == 0 && mi_partition_of(large) == 0);
  }
  mi_heap_destroy(a);
  mi_heap_delete(b);
  EXPECT((mi_partition_of(pb) != 0) == MX_ISOLATE);
  mi_free(pb);
}

// Two heaps and the main one; one of the two is destroyed or deleted now and then, and made anew.
static void test_churn(void) {
  static churn_t a, b;
  churn_begin(&a, 1);
  churn_begin(&b, 2);
  for (int round = 0; round < 20; round++) {
    churn(&a, 300);
    churn(&b, 300);
    churn_main(300, 3);
    if (round % 10 == 4) {
      mi_heap_destroy(a.heap);
      churn_begin(&a, (uint64_t)round);
    }
    if (round % 10 == 9) {
      mi_heap_delete(b.heap);
      churn_main(1000, 4);
      for (int i = 0; i < LIVE; i++) {
        EXPECT(mi_partition_of(b.blocks[i]) == (b.blocks[i] == NULL ? 0 : b.partition));
        mi_free(b.blocks[i]);
      }
      churn_main(1000, 5);
      churn_begin(&b, (uint64_t)round);
    }
    if (round % 7 == 0) mi_collect(true);
  }
  mi_heap_destroy(a.heap);
  mi_heap_destroy(b.heap);
}

static mi_heap_t* shared[2];
static size_t shared_partition[2];

static void* thread_main(void* arg) {
  static _Thread_local churn_t c[3];
  for (int i = 0; i < 2; i++) {
    c[i].random = (uint64_t)(uintptr_t)arg * 16 + (uint64_t)i;
    c[i].heap = shared[i];
    c[i].partition = shared_partition[i];
  }
  for (int round = 0; round < 10; round++) {
    churn(&c[0], 100);
    churn(&c[1], 100);
    churn_begin(&c[2], (uint64_t)(uintptr_t)arg + (uint64_t)round * 64);
    churn(&c[2], 100);
    if (round % 2 == 0) {
      mi_heap_destroy(c[2].heap);
    } else {
      mi_heap_delete(c[2].heap);
      for (int i = 0; i < LIVE; i++) mi_free(c[2].blocks[i]);
    }
  }
  return NULL;
}

static void test_threads(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < 2; i++) {
    churn_t c;
    churn_begin(&c, 7);
    shared[i] = c.heap;
    shared_partition[i] = c.partition;
  }
  for (size_t i = 0; i < THREADS; i++) {
    EXPECT(pthread_create(&threads[i], NULL, &thread_main, (void*)(uintptr_t)(i + 1)) == 0);
  }
  for (int n = 0; n < 5; n++) churn_main(300, 6);
  for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  mi_heap_delete(shared[0]);
  mi_heap_destroy(shared[1]);
  churn_main(1000, 8);
}

static size_t resident(void) {
  size_t pages = 0;
  FILE* const f = fopen("/proc/self/statm", "r");
  if (f == NULL) return 0;
  if (fscanf(f, "%*u %zu", &pages) != 1) pages = 0;
  fclose(f);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void short_heap(void) {
  mi_heap_t* const heap = mi_heap_new();
  void* const p = mi_heap_malloc(heap, 40);
  void* const q = mi_heap_malloc(heap, 3000);
  void* const r = mi_heap_malloc(heap, 250000);
  const size_t partition = mi_partition_of(p);
  note(p, 40, partition);
  note(q, 3000, partition);
  note(r, 250000, partition);
  mi_heap_destroy(heap);
}

// Heaps that come and go keep addresses, not memory.
static void test_short_heaps(void) {
  for (int i = 0; i < 100; i++) short_heap();
  mi_collect(true);
  const size_t before = resident(), seen_before = seen_count;
  for (int i = 0; i < SHORT_HEAPS; i++) short_heap();
  mi_collect(true);
  const size_t after = resident();
  const size_t table = (seen_count - seen_before) * 64;  // OS pages of this test's own
  const size_t more = (after > before ? (after - before) / 1024 : 0);
  printf("%d heaps: %zu KiB more resident\n", SHORT_HEAPS, more);
  EXPECT(after < before + table * 64 + (16 << 20));
}

// Large blocks of a heap take addresses that it had before, when others have been freed since.
static void test_addresses_again(void) {
  mi_heap_t* const heap = mi_heap_new();
  uintptr_t known[400];
  size_t count = 0;
  for (int i = 0; i < 400; i++) {
    void* const p = mi_heap_malloc(heap, 900000);
    size_t at = 0;
    while (at < count && known[at] != (uintptr_t)p) at++;
    if (at == count) known[count++] = (uintptr_t)p;
    mi_free(p);
  }
  EXPECT(count < 200);
  mi_heap_destroy(heap);
}

// Both sides of a fork go on with the same partitions, which stay apart in each.
static void test_fork(void) {
  static churn_t a;
  churn_begin(&a, 11);
  churn(&a, 300);
  const pid_t pid = fork();
  if (pid == 0) {
    churn(&a, 300);
    churn_main(300, 12);
    mi_heap_destroy(a.heap);
    churn_begin(&a, 13);
    churn(&a, 300);
    churn_main(300, 14);
    _exit(expect_failures == 0 ? 0 : 1);
  }
  int status = 0;
  EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  churn(&a, 300);
  mi_heap_destroy(a.heap);
}

// A heap in an arena of the program's is no partition.
static void test_arena(void) {
  mi_arena_id_t id = NULL;
  if (mi_reserve_os_memory_ex((size_t)64 << 20, true, false, true, &id) != 0) return;
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  void* const p = mi_heap_malloc(heap, 100);
  EXPECT(p != NULL && mi_partition_of(p) == 0);
  mi_heap_destroy(heap);
}

int main(void) {
  seen = (seen_t*)calloc(PLACES, sizeof(seen_t));
  if (seen == NULL) return 1;
  test_questions();
  test_churn();
  test_threads();
  test_short_heaps();
  test_addresses_again();
  test_fork();
  test_arena();
  printf("%zu slices had one partition each\n", seen_count);
  if (expect_failures == 0) puts("partition: ok");
  return expect_failures == 0 ? 0 : 1;
}
