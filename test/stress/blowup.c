// SPDX-License-Identifier: MIT
// Patterns that make allocators hold much more than is live, each with the ratio of peak resident
// memory to peak live bytes:
//
//   bleed     blocks go from the thread that allocates to one that only frees
//   ring      each thread frees what the one before allocated
//   phases    all of one size is freed before the next, other size
//   survivor  of each page's worth of blocks one stays, then another size is needed
//   vectors   many vectors grow by half their size, in turns
//   threads   threads come and go, each with a short peak of its own
//
// A fourth argument names one pattern; without it each runs in a process of its own. With SECONDS
// above 0 a ratio that is absurd fails. blowup.py makes the table of several allocators.
#include "stress.h"

#include <sys/wait.h>

#define MIB ((size_t)1 << 20)

static atomic_size_t live, peak_live;

static void count(size_t more) {
  const size_t now = atomic_fetch_add(&live, more) + more;
  size_t peak = peak_live;
  while (now > peak && !atomic_compare_exchange_weak(&peak_live, &peak, now)) {}
}

static void* get(size_t size) {
  block_t* b = block_new(size, size);
  memset((char*)b + sizeof(*b), 1, size - sizeof(*b) - 8);
  count(size);
  return b;
}

static void put(void* p) {
  if (p == NULL) return;
  atomic_fetch_sub(&live, ((block_t*)p)->size);
  block_free((block_t*)p);
}

// ---- from hand to hand ---------------------------------------------------------------------------

#define HANDS 4
#define BATCH 20000

static void** batches[HANDS];
static pthread_barrier_t barrier;

static void fill(void** batch, random_t* r) {
  for (size_t i = 0; i < BATCH; i++) batch[i] = get(32 + random_below(r, 480));
}

static void empty(void** batch) {
  for (size_t i = 0; i < BATCH; i++) put(batch[i]);
}

static void* in_ring(void* arg) {
  const size_t self = (size_t)(uintptr_t)arg;
  random_t r = random_of(self);
  for (size_t round = 0; round < 24; round++) {
    fill(batches[self], &r);
    pthread_barrier_wait(&barrier);
    empty(batches[(self + 1) % HANDS]);
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

static void ring(void) {
  pthread_t threads[HANDS];
  pthread_barrier_init(&barrier, NULL, HANDS);
  for (size_t i = 0; i < HANDS; i++) batches[i] = (void**)calloc(BATCH, sizeof(void*));
  for (size_t i = 0; i < HANDS; i++) threads[i] = start(in_ring, (void*)i);
  for (size_t i = 0; i < HANDS; i++) pthread_join(threads[i], NULL);
}

static void* frees_only(void* arg) {
  (void)arg;
  for (size_t round = 0; round < 60; round++) {
    pthread_barrier_wait(&barrier);
    empty(batches[0]);
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

static void bleed(void) {
  random_t r = random_of(1);
  pthread_barrier_init(&barrier, NULL, 2);
  batches[0] = (void**)calloc(BATCH, sizeof(void*));
  pthread_t thread = start(frees_only, NULL);
  for (size_t round = 0; round < 60; round++) {
    fill(batches[0], &r);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
  }
  pthread_join(thread, NULL);
}

// ---- sizes that change ---------------------------------------------------------------------------

static void phases(void) {
  const size_t total = 48 * MIB;
  void** blocks = (void**)calloc(total / 32, sizeof(void*));
  for (size_t size = 48; size < 200000; size = size * 2 + 16) {
    const size_t n = total / size;
    for (size_t i = 0; i < n; i++) blocks[i] = get(size);
    for (size_t i = 0; i < n; i++) put(blocks[i]);
  }
}

static void survivor(void) {
  const size_t total = 48 * MIB;
  size_t kept_bytes = 0, kept = 0;
  void** survivors = (void**)calloc(65536, sizeof(void*));
  void** blocks = (void**)calloc(total / 32, sizeof(void*));
  for (size_t size = 64; size < 5000; size += size / 2) {
    const size_t n = (total - kept_bytes) / size;
    const size_t stride = 65536 / size;
    for (size_t i = 0; i < n; i++) blocks[i] = get(size);
    for (size_t i = 0; i < n; i++) {
      if (i % stride == 0 && kept < 65536) {
        survivors[kept++] = blocks[i];
        kept_bytes += size;
      } else {
        put(blocks[i]);
      }
    }
  }
}

static void vectors(void) {
  enum { N = 64 };
  void* v[N];
  size_t sizes[N];
  for (int i = 0; i < N; i++) v[i] = get(sizes[i] = 64 + (size_t)i);
  for (int round = 0; round < 25; round++) {
    for (int i = 0; i < N; i++) {
      const size_t size = sizes[i] + sizes[i] / 2;
      if (size > MIB * 3 / 2) continue;
      block_t* b = (block_t*)realloc(v[i], size);
      check(b != NULL && b->size == sizes[i]);
      memset((char*)b + sizes[i] - 8, 1, size - sizes[i]);
      block_sign(b, size, size);
      count(size - sizes[i]);
      v[i] = b;
      sizes[i] = size;
    }
  }
  for (int i = 0; i < N; i++) put(v[i]);
}

// ---- threads -------------------------------------------------------------------------------------

static void* has_a_peak(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  void* blocks[2000];
  const size_t size = 32 + random_below(&r, 3000);
  for (size_t i = 0; i < 2000; i++) blocks[i] = get(size);
  for (size_t i = 0; i < 2000; i++) put(blocks[i]);
  return NULL;
}

static void threads(void) {
  for (uintptr_t n = 0; n < 200; n += 4) {
    pthread_t t[4];
    for (uintptr_t i = 0; i < 4; i++) t[i] = start(has_a_peak, (void*)(n + i));
    for (uintptr_t i = 0; i < 4; i++) pthread_join(t[i], NULL);
  }
}

// ---- the program ---------------------------------------------------------------------------------

static size_t peak_resident(void) {
  char line[256];
  size_t kib = 0;
  FILE* f = fopen("/proc/self/status", "r");
  if (f == NULL) return 0;
  while (fgets(line, sizeof(line), f) != NULL) {
    if (strncmp(line, "VmHWM:", 6) == 0) kib = strtoul(line + 6, NULL, 10);
  }
  fclose(f);
  return kib * 1024;
}

static const struct { const char* name; void (*run)(void); } patterns[] = {
    {"bleed", bleed}, {"ring", ring}, {"phases", phases},
    {"survivor", survivor}, {"vectors", vectors}, {"threads", threads},
};

static int run_one(const char* name) {
  for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
    if (strcmp(patterns[i].name, name) != 0) continue;
    const size_t before = resident();
    patterns[i].run();
    const double ratio = (double)(peak_resident() - before) / (double)peak_live;
    printf("%-9s %8.1f MiB live %8.1f MiB resident ratio %5.2f\n", name,
           (double)peak_live / (double)MIB, (double)(peak_resident() - before) / (double)MIB, ratio);
    return ratio < 16 ? 0 : 1;  // above what any allocator of the table has: a leak
  }
  return 2;
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  if (argc > 4) return run_one(argv[4]);
  int failed = 0;
  for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      execl(argv[0], argv[0], "0", "1", "4", patterns[i].name, (char*)NULL);
      _exit(127);
    }
    int status = 0;
    check(child > 0 && waitpid(child, &status, 0) == child);
    failed += !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  return failed == 0 ? 0 : 1;
}
