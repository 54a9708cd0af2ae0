// SPDX-License-Identifier: MIT
// The loads of patterns.c in which blocks are replaced at random, on and on.
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "patterns.h"

#define MIB ((size_t)1 << 20)

static pthread_barrier_t barrier;

// ---- blocks that are replaced at random --------------------------------------------------------

typedef struct replacer_s {
  size_t count;
  int rounds;
  uint32_t random;
  size_t live;
} replacer_t;

static uint32_t draw(replacer_t* r) {
  r->random = r->random * 1664525u + 1013904223u;
  return r->random >> 8;
}

static size_t replace(replacer_t* r, unsigned char** block) {
  const size_t size = 16 + draw(r) % 1985;
  free(*block);
  *block = malloc(size);
  if (*block == NULL) exit(2);
  (*block)[0] = (*block)[size - 1] = 1;
  return size;
}

static void* replace_all(void* argument) {
  replacer_t* const r = (replacer_t*)argument;
  unsigned char** const blocks = calloc(r->count, sizeof(*blocks));
  if (blocks == NULL) exit(2);
  for (size_t i = 0; i < r->count; i++) r->live += replace(r, &blocks[i]);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  for (int round = 0; round < r->rounds; round++) {
    for (size_t i = 0; i < r->count; i++) replace(r, &blocks[draw(r) % r->count]);
  }
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return NULL;
}

int run_replaced(unsigned count, size_t mib, int rounds) {
  static replacer_t replacers[16];
  pthread_t ids[16];
  size_t live = 0;
  if (count > 16) return 2;
  pthread_barrier_init(&barrier, NULL, count + 1);
  const long start = resident_kib();
  for (unsigned i = 0; i < count; i++) {
    replacers[i] = (replacer_t){mib * MIB / 1008, rounds, i + 1, 0};
    pthread_create(&ids[i], NULL, &replace_all, &replacers[i]);
  }
  pthread_barrier_wait(&barrier);
  for (unsigned i = 0; i < count; i++) live += replacers[i].live;
  printf("live=%zu\nmade=%ld\n", live / 1024, resident_kib() - start);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  printf("replaced=%ld\n", resident_kib() - start);
  pthread_barrier_wait(&barrier);
  for (unsigned i = 0; i < count; i++) pthread_join(ids[i], NULL);
  return 0;
}

// ---- blocks that another thread frees ----------------------------------------------------------

#define PASSED_BLOCKS 100000
#define BOX_PLACES 256

typedef struct passer_s {
  pthread_mutex_t lock;  // of the box
  unsigned char* box[BOX_PLACES];
  int count;
  struct passer_s* other;
  replacer_t random;
} passer_t;

static void empty_box(passer_t* p) {
  unsigned char* blocks[BOX_PLACES];
  pthread_mutex_lock(&p->lock);
  int count = p->count;
  memcpy(blocks, p->box, sizeof(blocks));
  p->count = 0;
  pthread_mutex_unlock(&p->lock);
  while (count > 0) free(blocks[--count]);
}

static void pass(passer_t* to, unsigned char* block) {
  pthread_mutex_lock(&to->lock);
  const bool has_room = (to->count < BOX_PLACES);
  if (has_room) to->box[to->count++] = block;
  pthread_mutex_unlock(&to->lock);
  if (!has_room) free(block);
}

// Those in the middle are replaced most often, those at the ends hardly ever.
static void* pass_some(void* argument) {
  passer_t* const p = (passer_t*)argument;
  unsigned char** const blocks = calloc(PASSED_BLOCKS, sizeof(*blocks));
  if (blocks == NULL) exit(2);
  for (size_t i = 0; i < (size_t)p->random.rounds * PASSED_BLOCKS; i++) {
    const uint32_t third = PASSED_BLOCKS / 3;
    const size_t k = draw(&p->random) % third + draw(&p->random) % third + draw(&p->random) % third;
    if (blocks[k] != NULL && draw(&p->random) % 10 == 0) pass(p->other, blocks[k]);
    else free(blocks[k]);
    blocks[k] = make(draw(&p->random) % 2 == 0 ? 64 : 256);
    if (i % 64 == 0) empty_box(p);
  }
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  for (size_t i = 0; i < PASSED_BLOCKS; i++) free(blocks[i]);
  empty_box(p);
  free(blocks);
  return NULL;
}

int run_passed(unsigned count, int rounds) {
  static passer_t passers[16];
  pthread_t ids[16];
  if (count > 16) return 2;
  pthread_barrier_init(&barrier, NULL, count + 1);
  const long start = resident_kib();
  for (unsigned i = 0; i < count; i++) {
    pthread_mutex_init(&passers[i].lock, NULL);
    passers[i].other = &passers[(i + 1) % count];
    passers[i].random = (replacer_t){0, rounds, i + 1, 0};
  }
  for (unsigned i = 0; i < count; i++) pthread_create(&ids[i], NULL, &pass_some, &passers[i]);
  pthread_barrier_wait(&barrier);
  printf("passed=%ld\n", resident_kib() - start);
  pthread_barrier_wait(&barrier);
  for (unsigned i = 0; i < count; i++) pthread_join(ids[i], NULL);
  return 0;
}

// ---- few blocks of very many sizes -------------------------------------------------------------

int run_wide(size_t count, size_t steps) {
  unsigned char** const blocks = calloc(count, sizeof(*blocks));
  replacer_t random = {0, 0, 1, 0};
  if (blocks == NULL) return 2;
  long first = 0;
  for (size_t i = 0; i < steps; i++) {
    // Of each doubling as many as of any other.
    const size_t size = (size_t)48 << draw(&random) % 12;
    const size_t more = draw(&random) % size;
    unsigned char** const block = &blocks[draw(&random) % count];
    free(*block);
    *block = make(size + more);
    if (i == steps / 10) first = faults();
  }
  printf("faults=%ld\nafter=%ld\n", faults() - first, resident_kib());
  for (size_t i = 0; i < count; i++) free(blocks[i]);
  free(blocks);
  return 0;
}

// ---- large blocks that become smaller ----------------------------------------------------------

#define WINDOW 24
#define LARGEST 400000
#define SMALLEST 20000
#define EVERY 150  // of so many large blocks one stays
#define SMALL 3000

// Few blocks of each size stay, and with them the pages that the others of the size were in.
int run_drift(size_t mib) {
  unsigned char* window[WINDOW] = {NULL};
  const size_t count = mib * MIB / SMALL;
  unsigned char** const blocks = calloc(2 * count, sizeof(*blocks));
  if (blocks == NULL) return 2;
  const long start = resident_kib();
  size_t stay = 0, live = 0;
  for (size_t i = 0; i < count; i++) {
    const size_t size = LARGEST - (LARGEST - SMALLEST) * i / count;
    unsigned char** const large = &window[i % WINDOW];
    if (i % EVERY == 0 && *large != NULL) {
      blocks[count + stay++] = *large;
      live += size;
    } else {
      free(*large);
    }
    *large = make(size);
    blocks[i] = make(SMALL);
  }
  printf("live=%zu\nafter=%ld\n", (live + count * SMALL + WINDOW * SMALLEST) / 1024,
         resident_kib() - start);
  for (size_t i = 0; i < WINDOW; i++) free(window[i]);
  for (size_t i = 0; i < count; i++) free(blocks[i]);
  malloc_trim(0);
  printf("rest=%zu\ntrimmed=%ld\n", live / 1024, resident_kib() - start);
  for (size_t i = 0; i < stay; i++) free(blocks[count + i]);
  free(blocks);
  return 0;
}

// ---- large blocks that are needed now and then -------------------------------------------------

#define KINDS 30
#define EACH 8
#define PHASES 70
#define BUFFERS 12

// A block of each size stays. Between two uses of all sizes memory grows often, and becomes less.
int run_again(int rounds) {
  unsigned char *blocks[EACH], *stays[KINDS], *buffers[BUFFERS];
  for (size_t kind = 0; kind < KINDS; kind++) stays[kind] = make(9000 + kind * 16000);
  const long before = faults();
  for (int round = 0; round < rounds; round++) {
    for (size_t kind = 0; kind < KINDS; kind++) {
      for (size_t i = 0; i < EACH; i++) blocks[i] = make(9000 + kind * 16000);
      for (size_t i = 0; i < EACH; i++) free(blocks[i]);
    }
    for (int phase = 0; phase < PHASES; phase++) {
      for (size_t i = 0; i < BUFFERS; i++) {
        buffers[i] = malloc(MIB);
        if (buffers[i] == NULL) return 2;
        buffers[i][0] = 1;
      }
      for (size_t i = 0; i < BUFFERS; i++) free(buffers[i]);
    }
  }
  printf("faults=%ld\n", faults() - before);
  for (size_t kind = 0; kind < KINDS; kind++) free(stays[kind]);
  return 0;
}
