// SPDX-License-Identifier: MIT
// The load of patterns.c in which many threads have a few blocks each, and wait.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "patterns.h"

#define THREADS_MOST 2000
#define LARGEST 1024
#define STACK 65536
#define LINE 64

typedef struct owned_s {
  unsigned char* block;
  size_t size;
} owned_t;

static unsigned threads, blocks;  // so many, each with so many
static owned_t* owned;            // of all threads
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

static owned_t* owned_by(unsigned thread) { return &owned[(size_t)thread * blocks]; }

// Frees its own blocks and its neighbour's by turns.
static void* wait_with_a_few(void* argument) {
  const unsigned me = (unsigned)(uintptr_t)argument, next = (me + 1) % threads;
  for (unsigned i = 0; i < blocks; i++) take(&owned_by(me)[i], me, i);
  pthread_barrier_wait(&has_all);
  pthread_barrier_wait(&is_measured);
  for (unsigned i = 0; i < blocks; i += 2) give(&owned_by(me)[i], me);
  for (unsigned i = 1; i < blocks; i += 2) give(&owned_by(next)[i], next);
  pthread_barrier_wait(&may_free);
  return NULL;
}

static int by_line(const void* a, const void* b) {
  const uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
  return (x > y) - (x < y);
}

// Lines of the caches in which two threads have blocks. Each entry is a line in which a block begins
// or ends, and the thread's number.
static size_t shared_lines(void) {
  const size_t all = 2 * (size_t)threads * blocks;
  uint64_t* const lines = malloc(all * sizeof(*lines));
  size_t n = 0, shared = 0;
  if (lines == NULL) exit(2);
  for (unsigned t = 0; t < threads; t++) {
    for (unsigned i = 0; i < blocks; i++) {
      const owned_t* const own = &owned_by(t)[i];
      const uint64_t first = (uintptr_t)own->block, last = first + own->size - 1;
      lines[n++] = first / LINE * THREADS_MOST + t;
      lines[n++] = last / LINE * THREADS_MOST + t;
    }
  }
  qsort(lines, n, sizeof(lines[0]), &by_line);
  for (size_t i = 1; i < n; i++) {
    const int is_same_line = (lines[i] / THREADS_MOST == lines[i - 1] / THREADS_MOST);
    if (is_same_line && lines[i] != lines[i - 1]) shared++;
  }
  free(lines);
  return shared;
}

static void one_round(const char* name) {
  static pthread_t ids[THREADS_MOST];
  pthread_attr_t attributes;
  size_t live = 0;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK);
  const long before = resident_kib();
  for (uintptr_t i = 0; i < threads; i++) {
    if (pthread_create(&ids[i], &attributes, &wait_with_a_few, (void*)i) != 0) exit(2);
  }
  pthread_barrier_wait(&has_all);
  const long after = resident_kib();
  for (size_t i = 0; i < (size_t)threads * blocks; i++) live += owned[i].size;
  printf("%s_each=%ld\n%s_live=%zu\n", name, (after - before) / threads, name,
         live / threads / 1024);
  printf("%s_shared=%zu\n", name, shared_lines());
  pthread_barrier_wait(&is_measured);
  pthread_barrier_wait(&may_free);
  for (unsigned i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  pthread_attr_destroy(&attributes);
}

int run_many(unsigned count, unsigned each) {
  if (count == 0 || count > THREADS_MOST || each == 0) return 2;
  threads = count;
  blocks = each;
  owned = malloc((size_t)count * each * sizeof(*owned));
  if (owned == NULL) return 2;
  memset(owned, 0, (size_t)count * each * sizeof(*owned));  // is not to count as the threads'
  pthread_barrier_init(&has_all, NULL, count + 1);
  pthread_barrier_init(&is_measured, NULL, count + 1);
  pthread_barrier_init(&may_free, NULL, count + 1);
  one_round("first");
  one_round("second");
  free(owned);
  printf("os_page=%ld\n", sysconf(_SC_PAGESIZE) / 1024);
  return 0;
}
