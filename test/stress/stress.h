// SPDX-License-Identifier: MIT
// What the stress programs share: arguments, random numbers, blocks whose contents prove which
// owns them, and the memory that the process has.
//
// Every program is called as `program [SECONDS [SEED [THREADS]]]`. It allocates by malloc and free,
// so it tests whatever allocator the process has: linked, or preloaded.
#ifndef STRESS_H
#define STRESS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define PSAPI_VERSION 2
#include <windows.h>
#include <psapi.h>
#endif

// What the thread sanitizer's run-time cannot follow is left out there: calls on a thread after the
// run-time has taken its end as given (late destructors, cancellation), fork with threads, clone.
#if defined(__SANITIZE_THREAD__)
#define STRESS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STRESS_TSAN 1
#endif
#endif
#ifndef STRESS_TSAN
#define STRESS_TSAN 0
#endif

static double stress_seconds = 2;
static uint64_t stress_seed = 1;
static int stress_threads = 4;
static struct timespec stress_begin;

#define fail(...)                                  \
  do {                                             \
    fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
    fprintf(stderr, __VA_ARGS__);                  \
    fprintf(stderr, "\n");                         \
    abort();                                       \
  } while (0)
#define check(condition)                             \
  do {                                               \
    if (!(condition)) fail("failed: %s", #condition); \
  } while (0)

__attribute__((unused)) static void stress_args(int argc, char** argv) {
  if (argc > 1) stress_seconds = atof(argv[1]);
  if (argc > 2) stress_seed = strtoull(argv[2], NULL, 10);
  if (argc > 3) stress_threads = atoi(argv[3]);
  if (stress_threads < 1) stress_threads = 1;
  clock_gettime(CLOCK_MONOTONIC, &stress_begin);
}

__attribute__((unused)) static double stress_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)(t.tv_sec - stress_begin.tv_sec) +
         (double)(t.tv_nsec - stress_begin.tv_nsec) / 1e9;
}

__attribute__((unused)) static bool stress_is_over(void) { return stress_time() >= stress_seconds; }

// ---- random numbers: splitmix64 ------------------------------------------------------------------

typedef struct random_s { uint64_t state; } random_t;

__attribute__((unused)) static random_t random_of(uint64_t stream) {
  random_t r = {stress_seed * 0x9e3779b97f4a7c15u + stream * 0xd1342543de82ef95u + 1};
  return r;
}

__attribute__((unused)) static uint64_t random_next(random_t* r) {
  uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

__attribute__((unused)) static size_t random_below(random_t* r, size_t n) {
  return (size_t)(random_next(r) % n);
}

// Mostly small, some medium, few large: as programs ask.
__attribute__((unused)) static size_t random_size(random_t* r) {
  const uint64_t kind = random_next(r) % 1000;
  if (kind < 900) return 16 + random_below(r, 500);
  if (kind < 985) return 512 + random_below(r, 8000);
  if (kind < 998) return 8192 + random_below(r, 120000);
  return 128 * 1024 + random_below(r, 1024 * 1024);
}

// ---- blocks --------------------------------------------------------------------------------------

// A block begins with its size and a stamp, and ends with the stamp: if two owners have it, or
// a thread writes to it that should not, a check finds the stamp changed.
typedef struct block_s {
  size_t size;
  uint64_t stamp;
} block_t;

__attribute__((unused)) static uint64_t* block_end(block_t* b) {
  return (uint64_t*)(void*)((char*)b + b->size - 8);
}

__attribute__((unused)) static void block_sign(block_t* b, size_t size, uint64_t stamp) {
  b->size = size;
  b->stamp = stamp;
  memcpy((char*)b + size - 8, &stamp, 8);
}

__attribute__((unused)) static block_t* block_new(size_t size, uint64_t stamp) {
  if (size < 32) size = 32;
  block_t* b = (block_t*)malloc(size);
  if (b == NULL) fail("out of memory (%zu bytes)", size);
  if (((uintptr_t)b & 15) != 0) fail("block %p is not aligned", (void*)b);
  block_sign(b, size, stamp);
  return b;
}

__attribute__((unused)) static void block_check(const block_t* b) {
  uint64_t end;
  memcpy(&end, (const char*)b + b->size - 8, 8);
  if (end != b->stamp) {
    fail("block %p of %zu bytes is damaged: %llx at its start, %llx at its end", (const void*)b,
         b->size, (unsigned long long)b->stamp, (unsigned long long)end);
  }
}

__attribute__((unused)) static void block_free(block_t* b) {
  if (b == NULL) return;
  block_check(b);
  b->stamp = ~b->stamp;  // a second free of it fails the check
  free(b);
}

// ---- the process ---------------------------------------------------------------------------------

// Bytes of memory present, by the kernel's count. No allocation.
#if defined(_WIN32)
__attribute__((unused)) static size_t resident(void) {
  PROCESS_MEMORY_COUNTERS memory;
  memory.WorkingSetSize = 0;
  GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof(memory));
  return memory.WorkingSetSize;
}
#else
__attribute__((unused)) static size_t resident(void) {
  char text[128];
  FILE* f = fopen("/proc/self/statm", "r");
  if (f == NULL) return 0;
  setvbuf(f, NULL, _IONBF, 0);
  const size_t n = fread(text, 1, sizeof(text) - 1, f);
  fclose(f);
  text[n] = 0;
  const char* second = strchr(text, ' ');
  return second == NULL ? 0 : strtoul(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}
#endif

// Without threads the body runs at once, and `start` returns when it is over.
#if defined(__wasm__) && !defined(__wasm_atomics__)
#define pthread_join(thread, result) ((void)(thread), (void)(result), 0)
#define pthread_mutex_lock(lock) ((void)(lock))
#define pthread_mutex_unlock(lock) ((void)(lock))
__attribute__((unused)) static pthread_t start(void* (*body)(void*), void* arg) {
  body(arg);
  return pthread_self();
}
#else
__attribute__((unused)) static pthread_t start(void* (*body)(void*), void* arg) {
  pthread_t thread;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 128 * 1024);
  const int error = pthread_create(&thread, &attr, body, arg);
  pthread_attr_destroy(&attr);
  if (error != 0) fail("no thread: %s", strerror(error));
  return thread;
}
#endif

// Keeps `most` threads going, or as many as were asked for, until the time is over: a new one comes
// in the place of each that ends, with a number of its own from 1 on. The number of all.
#define RELAY_MAX 64
__attribute__((unused)) static size_t relay(void* (*body)(void*), int most) {
  pthread_t threads[RELAY_MAX];
  check(most <= RELAY_MAX);
  const int n = stress_threads < most ? stress_threads : most;
  uintptr_t number = 0;
  for (int i = 0; i < n; i++) threads[i] = start(body, (void*)++number);
  for (int i = 0; !stress_is_over(); i = (i + 1) % n) {
    pthread_join(threads[i], NULL);
    threads[i] = start(body, (void*)++number);
  }
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
  return (size_t)number;
}

#endif
