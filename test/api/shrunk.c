// SPDX-License-Identifier: MIT
// A block that shrinks where there is no memory to move it to stays, as large as it was: programs
// hardly expect a realloc to less to fail, and with glibc it does not.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../child.h"
#include "alloc/harden.h"
#include "expect.h"

#define ROOM ((size_t)100 << 20)
#define BLOCKS_MAX ((size_t)1 << 18)
#define SKIPPED 77

typedef struct shrink_s {
  size_t from, to;
} shrink_t;

static unsigned char* blocks[BLOCKS_MAX];

// Ends the child where the system, or what stands in for it, does not keep the limit.
static void limit_memory(void) {
  const struct rlimit limit = {ROOM, ROOM};
  if (setrlimit(RLIMIT_DATA, &limit) != 0) _exit(SKIPPED);
  const int access = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
  if (mmap(NULL, 2 * ROOM, access, kind, -1, 0) != MAP_FAILED) _exit(SKIPPED);
}

// Fills what a limit leaves, and makes all smaller.
static void shrink_all(const void* argument) {
  const shrink_t* const shrink = (const shrink_t*)argument;
  limit_memory();
  size_t n = 0, refused = 0, damaged = 0, sizes = 0;
  for (; n < BLOCKS_MAX && (blocks[n] = (unsigned char*)mi_malloc(shrink->from)) != NULL; n++) {
    blocks[n][0] = (unsigned char)n;
    blocks[n][shrink->to - 1] = (unsigned char)(n + 1);
  }
  for (size_t i = 0; i < n; i++) {
    unsigned char* const p = (unsigned char*)mi_realloc(blocks[i], shrink->to);
    refused += (p == NULL);
    if (p != NULL) blocks[i] = p;
    sizes += (p != NULL && mi_usable_size(p) < shrink->to);
    damaged += (blocks[i][0] != (unsigned char)i ||
                blocks[i][shrink->to - 1] != (unsigned char)(i + 1));
  }
  // What has a size by a canary, and was told another one, is freed with that.
  for (size_t i = 0; i < n; i++) mi_free_size(blocks[i], shrink->to);
  fprintf(stderr, "%zu of %zu refused, %zu damaged, %zu too small\n", refused, n, damaged, sizes);
  _exit(n > 0 && n < BLOCKS_MAX && refused + damaged + sizes == 0 ? 0 : 1);
}

// ---- blocks of another heap ------------------------------------------------------------------------

#define THREADS 200
#define FOREIGN ((size_t)4)

static unsigned char* foreign[THREADS][FOREIGN];
static pthread_barrier_t is_full;

// The thread has no theap, and is refused one.
static void* shrink_foreign(void* argument) {
  unsigned char** const mine = (unsigned char**)argument;
  pthread_barrier_wait(&is_full);
  for (size_t i = 0; i < FOREIGN; i++) {
    unsigned char* const p = (unsigned char*)mi_realloc(mine[i], i % 2 == 0 ? 100 : 2000);
    if (p == mine[i]) _exit(1);
  }
  return NULL;
}

static void move_or_fail(const void* argument) {
  (void)argument;
  mi_heap_t* const heap = mi_heap_new();
  pthread_t threads[THREADS];
  pthread_barrier_init(&is_full, NULL, THREADS + 1);
  for (size_t t = 0; t < THREADS; t++) {
    for (size_t i = 0; i < FOREIGN; i++) {
      foreign[t][i] = (unsigned char*)mi_heap_malloc(heap, 3000);
    }
    if (pthread_create(&threads[t], NULL, shrink_foreign, foreign[t]) != 0) _exit(SKIPPED);
  }
  limit_memory();
  for (size_t size = 1 << 20; size >= 16; size /= 2) {
    while (mi_malloc(size) != NULL) {}
  }
  pthread_barrier_wait(&is_full);
  for (size_t t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
  _exit(0);
}

// Whether the last child found all as it should be; where it could not be tried, nor can the rest.
static bool is_well(void) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) exit(SKIPPED);
  return status == 0;
}

int main(void) {
  // Builds that let no block stay where it is cannot keep one.
  if (MX_HARDEN_SLOWLY) return SKIPPED;
  static const shrink_t shrinks[] = {{3000, 100},     {20000, 5000},     {20000, 9000},
                                     {100000, 50},    {100000, 30000},   {300000, 1000},
                                     {1000000, 30000}, {1000000, 300000}};
  for (size_t i = 0; i < sizeof(shrinks) / sizeof(shrinks[0]); i++) {
    run_child(shrink_all, &shrinks[i]);
    if (status != 0) printf("%zu to %zu: %s", shrinks[i].from, shrinks[i].to, said);
    EXPECT_AT(i, is_well());
  }
  run_child(move_or_fail, NULL);
  EXPECT(is_well());
  return expect_end("shrunk");
}
