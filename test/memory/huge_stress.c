// SPDX-License-Identifier: MIT
// The test of huge blocks whose OS pages move: contents stay, what shall be zero is zero, and
// memory that was freed serves blocks elsewhere without being faulted in again.
//
//   huge_stress [SECONDS [SEED]]
#include <mimalloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define KIB ((size_t)1024)
#define MIB (KIB * 1024)
#define STEP ((size_t)4096)
#define SLOTS 12

#define CHECK(condition)                                               \
  do {                                                                 \
    if (!(condition)) {                                                \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);  \
      exit(1);                                                         \
    }                                                                  \
  } while (0)

static double seconds = 2;
static uint64_t seed = 1;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static long faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

static uint64_t next(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static size_t some_size(uint64_t* state) {
  const size_t most = next(state) % 8 == 0 ? 12 * MIB : 3 * MIB;
  return 400 * KIB + (size_t)(next(state) % (most - 400 * KIB));
}

// ---- contents ----------------------------------------------------------------------------------

typedef struct block_s {
  uint8_t* p;
  size_t size;
  uint64_t key;
} block_t;

static void write_from(block_t* b, size_t from) {
  for (size_t i = from / STEP * STEP; i + sizeof(uint64_t) <= b->size; i += STEP) {
    if (i >= from) memcpy(b->p + i, &(uint64_t){b->key + i}, sizeof(uint64_t));
  }
}

static void check_to(const block_t* b, size_t to) {
  for (size_t i = 0; i + sizeof(uint64_t) <= to; i += STEP) {
    uint64_t word;
    memcpy(&word, b->p + i, sizeof word);
    CHECK(word == b->key + i);
  }
}

static void check_zero(const block_t* b, size_t from) {
  for (size_t i = from; i < b->size; i += 512) CHECK(b->p[i] == 0);
}

static void make(block_t* b, uint64_t* state) {
  const bool zero = next(state) % 4 == 0;
  b->size = some_size(state);
  b->key = next(state);
  b->p = (uint8_t*)(zero ? mi_zalloc(b->size) : mi_malloc(b->size));
  CHECK(b->p != NULL);
  if (zero) check_zero(b, 0);
  write_from(b, 0);
}

static void resize(block_t* b, uint64_t* state) {
  const size_t old_size = b->size;
  b->size = next(state) % 2 == 0 ? old_size + old_size / 2 : some_size(state);
  if (b->size > 24 * MIB) b->size = some_size(state);
  b->p = (uint8_t*)mi_realloc(b->p, b->size);
  CHECK(b->p != NULL);
  const size_t kept = old_size < b->size ? old_size : b->size;
  check_to(b, kept);
  write_from(b, (kept + STEP - 1) / STEP * STEP);
  write_from(b, 0);
}

static void* work(void* arg) {
  uint64_t state = seed * 1000003 + (uint64_t)(uintptr_t)arg;
  block_t blocks[SLOTS];
  memset(blocks, 0, sizeof blocks);
  for (const double end = now() + seconds; now() < end;) {
    block_t* const b = &blocks[next(&state) % SLOTS];
    if (b->p == NULL) {
      make(b, &state);
      continue;
    }
    check_to(b, b->size);
    if (next(&state) % 2 == 0) {
      resize(b, &state);
    } else {
      mi_free(b->p);
      b->p = NULL;
    }
  }
  for (size_t i = 0; i < SLOTS; i++) {
    if (blocks[i].p != NULL) check_to(&blocks[i], blocks[i].size);
    mi_free(blocks[i].p);
  }
  return NULL;
}

// ---- faults ------------------------------------------------------------------------------------

static void touch(uint8_t* p, size_t size) {
  for (size_t i = 0; i < size; i += STEP) p[i] = 1;
}

// Where each byte that could be written is counted, OS pages do not move: for a moment they would
// count twice.
static bool moves(void) {
  char mode = '0';
  FILE* const f = fopen("/proc/sys/vm/overcommit_memory", "r");
  if (f != NULL && fread(&mode, 1, 1, f) != 1) mode = '0';
  if (f != NULL) fclose(f);
  return mode != '2';
}

static void freed_pages_serve_elsewhere(void) {
  uint8_t* const a = (uint8_t*)mi_malloc(5 * MIB);
  uint8_t* const behind = (uint8_t*)mi_malloc(1 * MIB);
  touch(a, 5 * MIB);
  touch(behind, 1 * MIB);
  mi_free(a);
  const long before = faults();
  uint8_t* const b = (uint8_t*)mi_malloc(7 * MIB);  // does not fit where a was
  touch(b, 7 * MIB);
  const long count = faults() - before;
  CHECK(b != a);
  printf("7 MiB after 5 MiB were freed elsewhere: %ld faults of %zu\n", count, 7 * MIB / STEP);
  CHECK(!moves() || count < (long)(5 * MIB / STEP));
  mi_free(b);
  mi_free(behind);
}

// Two blocks that grow in turns must not lie in each other's way all the time.
static void blocks_grow_side_by_side(void) {
  uint8_t *a = NULL, *b = NULL;
  int moves = 0;
  for (size_t size = 256 * KIB; size <= 24 * MIB; size += 256 * KIB) {
    uint8_t* const a_before = a;
    uint8_t* const b_before = b;
    a = (uint8_t*)mi_realloc(a, size);
    b = (uint8_t*)mi_realloc(b, size);
    CHECK(a != NULL && b != NULL);
    if (size > MIB) moves += (a != a_before) + (b != b_before);
    touch(a, size);
    touch(b, size);
  }
  printf("two blocks grew to 24 MiB in steps of 256 KiB with %d moves from 1 MiB on\n", moves);
  CHECK(moves <= 4);
  mi_free(a);
  mi_free(b);
}

int main(int argc, char** argv) {
  if (argc > 1) seconds = atof(argv[1]);
  if (argc > 2) seed = (uint64_t)strtoull(argv[2], NULL, 10);
  freed_pages_serve_elsewhere();
  blocks_grow_side_by_side();
  pthread_t threads[3];
  for (uintptr_t i = 0; i < 3; i++) {
    CHECK(pthread_create(&threads[i], NULL, work, (void*)(i + 1)) == 0);
  }
  for (size_t i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  puts("contents stayed");
  return 0;
}
