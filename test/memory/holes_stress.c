// SPDX-License-Identifier: MIT
// The proof that holes lose nothing: threads fill, thin out and refill pages, checking every
// byte that they wrote, while another thread makes holes all the time, whoever owns the pages.
//
//   holes_stress [THREADS [SECONDS [SEED]]]
//
// Exit status 0: every block kept its contents, and holes were made. Blocks also change hands
// through a table, so that pages lose their owners and get freed into from outside.
#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 20000
#define SHARED 256

typedef struct block_s {
  unsigned char* p;
  size_t size;
} block_t;

static _Atomic(unsigned char*) shared[SHARED];
static atomic_int stop, stop_making;
static atomic_size_t holes_bytes;
static unsigned seed = 1;

static unsigned next(unsigned* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void fail(const char* what, const void* p) {
  fprintf(stderr, "holes_stress: %s at %p (seed %u)\n", what, p, seed);
  abort();
}

// The first 8 bytes hold the size, the rest a byte that follows from the address.
static unsigned char mark(const unsigned char* p) { return (unsigned char)((uintptr_t)p >> 4 | 1); }

static void fill(unsigned char* p, size_t size) {
  memset(p, mark(p), size);
  memcpy(p, &size, sizeof(size));
}

static size_t check(const unsigned char* p) {
  size_t size;
  memcpy(&size, p, sizeof(size));
  if (size < 16 || size > (1u << 20)) fail("a size was overwritten", p);
  for (size_t i = sizeof(size); i < size; i++) {
    if (p[i] != mark(p)) fail("a byte was overwritten", p + i);
  }
  return size;
}

static size_t pick_size(unsigned* state) {
  const unsigned kind = next(state) % 16;
  if (kind < 10) return 16 + next(state) % 1009;
  if (kind < 14) return 1024 + next(state) % 7168;
  if (kind < 15) return 8192 + next(state) % 24576;
  return 32768 + next(state) % 200000;
}

static unsigned char* make(unsigned* state) {
  const size_t size = pick_size(state);
  const int zero = (next(state) % 4 == 0);
  unsigned char* p = zero ? mi_calloc(1, size) : mi_malloc(size);
  if (p == NULL) fail("out of memory", NULL);
  for (size_t i = 0; zero && i < size; i++) {
    if (p[i] != 0) fail("calloc gave a byte that is not zero", p + i);
  }
  fill(p, size);
  return p;
}

static void drop(unsigned char* p) {
  if (p == NULL) return;
  check(p);
  mi_free(p);
}

static void* work(void* arg) {
  unsigned state = seed + (unsigned)(uintptr_t)arg * 7919;
  block_t* blocks = calloc(BLOCKS, sizeof(block_t));
  while (!atomic_load(&stop)) {
    // Fill, thin out, rest for a moment (which is when holes are made), refill.
    const size_t count = 1000 + next(&state) % (BLOCKS - 1000);
    const unsigned one_of = 2 + next(&state) % 20;
    for (size_t i = 0; i < count; i++) {
      if (blocks[i].p == NULL) blocks[i].p = make(&state);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
      if (blocks[i].p == NULL || next(&state) % one_of == 0) continue;
      if (next(&state) % 8 == 0) {
        drop(atomic_exchange(&shared[next(&state) % SHARED], blocks[i].p));
      } else {
        drop(blocks[i].p);
      }
      blocks[i].p = NULL;
    }
    if (next(&state) % 2 == 0) usleep(next(&state) % 20000);
    if (next(&state) % 8 == 0) mi_collect(true);
  }
  for (size_t i = 0; i < BLOCKS; i++) drop(blocks[i].p);
  free(blocks);
  return NULL;
}

static void* make_holes(void* arg) {
  (void)arg;
  while (!atomic_load(&stop_making)) atomic_fetch_add(&holes_bytes, mi_purge_holes());
  return NULL;
}

int main(int argc, char** argv) {
  const size_t threads = (argc > 1 ? strtoul(argv[1], NULL, 10) : 2);
  const unsigned seconds = (argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 3);
  if (argc > 3) seed = (unsigned)strtoul(argv[3], NULL, 10);
  if (threads < 1 || threads > 64) return 2;
  pthread_t ids[64], maker;
  pthread_create(&maker, NULL, &make_holes, NULL);
  const time_t end = time(NULL) + seconds;
  // Generations of threads, so that pages outlive their owners. The maker of holes goes on between
  // them: on a slow machine threads only fill pages until they are to stop, and thin them out then.
  while (time(NULL) < end || (atomic_load(&holes_bytes) == 0 && time(NULL) < end + 30)) {
    for (size_t i = 0; i < threads; i++) {
      pthread_create(&ids[i], NULL, &work, (void*)(uintptr_t)(i + seed));
    }
    usleep(300000);
    atomic_store(&stop, 1);
    for (size_t i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    atomic_store(&stop, 0);
    seed++;
  }
  atomic_store(&stop_making, 1);
  pthread_join(maker, NULL);
  for (size_t i = 0; i < SHARED; i++) drop(atomic_exchange(&shared[i], NULL));
  mi_collect(true);
  mi_stats_t stats;
  mi_stats_init(&stats);
  if (!mi_stats_get(&stats)) return 2;
  printf("holes: %zu KiB, committed now: %lld KiB\n", atomic_load(&holes_bytes) / 1024,
         (long long)stats.committed.current / 1024);
  if (atomic_load(&holes_bytes) == 0) {
    fprintf(stderr, "holes_stress: no hole was made\n");
    return 1;
  }
  return 0;
}
