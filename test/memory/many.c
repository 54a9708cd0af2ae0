// SPDX-License-Identifier: MIT
// The load of patterns.c in which many threads have a few blocks each, and wait.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "patterns.h"

#define THREADS 200
#define BLOCKS 30
#define LARGEST 1024
#define STACK 65536
#define LINE 64

typedef struct owned_s {
  unsigned char* block;
  size_t size;
} owned_t;

static owned_t owned[THREADS][BLOCKS];
static pthread_barrier_t has_all, is_measured, may_free;

// A block in two is to be zero.
static void take(owned_t* own, unsigned thread, unsigned i) {
  const size_t size = 16 + (thread * 7919u + i * 104729u) % (LARGEST - 15);
  unsigned char* const p = (i % 2 == 0 ? malloc(size) : calloc(1, size));
  if (p == NULL) exit(2);
  for (size_t k = 0; i % 2 != 0 && k < size; k++) {
    if (p[k] != 0) exit(3);
  }
  memset(p, (int)(thread + 1), size);
  own->block = p;
  own->size = size;
}

static void give(owned_t* own, unsigned thread) {
  for (size_t k = 0; k < own->size; k++) {
    if (own->block[k] != (unsigned char)(thread + 1)) exit(4);
  }
  free(own->block);
}

// Frees its own blocks and its neighbour's by turns.
static void* wait_with_a_few(void* argument) {
  const unsigned me = (unsigned)(uintptr_t)argument, next = (me + 1) % THREADS;
  for (unsigned i = 0; i < BLOCKS; i++) take(&owned[me][i], me, i);
  pthread_barrier_wait(&has_all);
  pthread_barrier_wait(&is_measured);
  for (unsigned i = 0; i < BLOCKS; i += 2) give(&owned[me][i], me);
  for (unsigned i = 1; i < BLOCKS; i += 2) give(&owned[next][i], next);
  pthread_barrier_wait(&may_free);
  return NULL;
}

static int by_address(const void* a, const void* b) {
  const uintptr_t x = *(const uintptr_t*)a, y = *(const uintptr_t*)b;
  return (x > y) - (x < y);
}

// Lines of the caches in which two threads have blocks. Each entry is where a block begins, with
// its thread's number in the bits that are always zero there, or its last byte, with the same.
static size_t shared_lines(void) {
  static uintptr_t lines[2 * THREADS * BLOCKS];
  size_t n = 0, shared = 0;
  for (unsigned t = 0; t < THREADS; t++) {
    for (unsigned i = 0; i < BLOCKS; i++) {
      const uintptr_t p = (uintptr_t)owned[t][i].block;
      lines[n++] = p / LINE << 8 | t;
      lines[n++] = (p + owned[t][i].size - 1) / LINE << 8 | t;
    }
  }
  qsort(lines, n, sizeof(lines[0]), &by_address);
  for (size_t i = 1; i < n; i++) {
    if (lines[i] >> 8 == lines[i - 1] >> 8 && lines[i] != lines[i - 1]) shared++;
  }
  return shared;
}

static void one_round(const char* name) {
  static pthread_t ids[THREADS];
  pthread_attr_t attributes;
  size_t live = 0;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK);
  const long before = resident_kib();
  for (uintptr_t i = 0; i < THREADS; i++) {
    if (pthread_create(&ids[i], &attributes, &wait_with_a_few, (void*)i) != 0) exit(2);
  }
  pthread_barrier_wait(&has_all);
  for (unsigned t = 0; t < THREADS; t++) {
    for (unsigned i = 0; i < BLOCKS; i++) live += owned[t][i].size;
  }
  printf("%s_each=%ld\n%s_live=%zu\n", name, (resident_kib() - before) / THREADS, name,
         live / THREADS / 1024);
  printf("%s_shared=%zu\n", name, shared_lines());
  pthread_barrier_wait(&is_measured);
  pthread_barrier_wait(&may_free);
  for (unsigned i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
  pthread_attr_destroy(&attributes);
}

int run_many(void) {
  pthread_barrier_init(&has_all, NULL, THREADS + 1);
  pthread_barrier_init(&is_measured, NULL, THREADS + 1);
  pthread_barrier_init(&may_free, NULL, THREADS + 1);
  one_round("first");
  one_round("second");
  printf("os_page=%ld\n", sysconf(_SC_PAGESIZE) / 1024);
  return 0;
}
