// SPDX-License-Identifier: MIT
// What every probe shares: its arguments, its verdicts, and ways to keep the compiler from helping.
//
// A probe is one crime against the heap, run as `probe guilty|innocent SIZE BY`. The innocent run
// does everything but the crime and has to reach its end: it tells a detector from an allocator
// that merely stops programs. The guilty run ends in one of these lines on standard output:
//
//   NOT_CAUGHT       the crime was committed and the program runs on as if nothing had happened
//   REFUSED: why     the crime came to nothing: the call failed as its manual says, or what the
//                    program went looking for was not there; this counts as caught
//   SETUP_FAILED     the probe could not be prepared, which says nothing about the allocator
//
// or in none of them, because the process was stopped first: that is a catch.
//
// Invariants: verdicts are written with write(2), since stdio would allocate in a heap that may be
// broken by then; nothing here writes to standard error, which belongs to the allocator's reports;
// every pointer a crime works on went through `probe_hide`, so that no compiler warning, fortified
// function or optimisation stands in for the allocator.
#ifndef MX_TEST_PROBES_PROBE_H
#define MX_TEST_PROBES_PROBE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The largest size and the largest `by` that a probe is run with: bounds for static buffers.
#define PROBE_MAX_SIZE ((size_t)262144)
#define PROBE_MAX_BY ((size_t)64)

static volatile bool probe_guilty;
static volatile size_t probe_size;
static volatile size_t probe_by;
static void* volatile probe_hidden;
static volatile unsigned char probe_sink;

// What only the guilty do.
#define CRIME(...)       \
  do {                   \
    if (probe_guilty) {  \
      __VA_ARGS__;       \
    }                    \
  } while (0)

static inline void probe_say(const char* line) {
  size_t left = strlen(line);
  while (left > 0) {
    const ssize_t n = write(STDOUT_FILENO, line, left);
    if (n <= 0) _exit(78);
    line += n;
    left -= (size_t)n;
  }
}

static inline void probe_setup_failed(void) {
  probe_say("SETUP_FAILED\n");
  _exit(77);
}

// The crime came to nothing. Only to be said from inside `CRIME`.
static inline void probe_refused(const char* why) {
  probe_say("REFUSED: ");
  probe_say(why);
  probe_say("\n");
  _exit(0);
}

static inline int probe_end(void) {
  probe_say(probe_guilty ? "NOT_CAUGHT\n" : "INNOCENT\n");
  return 0;
}

static inline void probe_begin(int argc, char** argv) {
  if (argc != 4) probe_setup_failed();
  probe_guilty = (strcmp(argv[1], "guilty") == 0);
  probe_size = (size_t)strtoull(argv[2], NULL, 10);
  probe_by = (size_t)strtoull(argv[3], NULL, 10);
  if (probe_size > PROBE_MAX_SIZE || probe_by > PROBE_MAX_BY) probe_setup_failed();
}

static inline unsigned char* probe_hide(const void* p) {
  probe_hidden = (void*)(uintptr_t)p;
  return (unsigned char*)probe_hidden;
}

static inline unsigned char* probe_must(void* p) {
  if (p == NULL) probe_setup_failed();
  return probe_hide(p);
}

static inline unsigned char* probe_malloc(size_t n) {
  return probe_must(malloc(n));
}

static inline unsigned char* probe_aligned(size_t alignment, size_t n) {
  void* p = NULL;
  if (posix_memalign(&p, alignment, n) != 0) probe_setup_failed();
  return probe_must(p);
}

// Writes byte by byte, through no library function that somebody could have replaced.
static inline void probe_fill(void* p, size_t n, unsigned char byte) {
  volatile unsigned char* b = (volatile unsigned char*)p;
  for (size_t i = 0; i < n; i++) b[i] = byte;
}

// Reads byte by byte and keeps the result, since even an interpreter may drop an unused load.
static inline void probe_read(const void* p, size_t n) {
  const volatile unsigned char* b = (const volatile unsigned char*)p;
  for (size_t i = 0; i < n; i++) probe_sink ^= b[i];
}

// A secret to be found again: eight bytes that no allocator writes by itself.
#define PROBE_SECRET UINT64_C(0x5e3c7e7a11c0ffee)

static inline void probe_fill_secret(void* p, size_t n) {
  volatile uint64_t* w = (volatile uint64_t*)p;
  for (size_t i = 0; i < n / sizeof(*w); i++) w[i] = PROBE_SECRET;
}

static inline bool probe_has_secret(const void* p, size_t n) {
  const volatile uint64_t* w = (const volatile uint64_t*)p;
  for (size_t i = 0; i < n / sizeof(*w); i++) {
    if (w[i] == PROBE_SECRET) return true;
  }
  return false;
}

// Allocates and frees until delayed or shuffled free lists have come round many times, so that
// whatever lies in wait for the next user of a freed block is met.
static inline void probe_cycle(size_t n) {
  enum { HELD = 64, ROUNDS = 64 };
  void* held[HELD];
  for (int r = 0; r < ROUNDS; r++) {
    for (int i = 0; i < HELD; i++) held[i] = probe_malloc(n);
    for (int i = 0; i < HELD; i++) free(held[i]);
  }
}

// Runs `f(arg)` in a thread of its own and waits for the end of that thread.
static inline void probe_in_thread(void* (*f)(void*), void* arg) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, f, arg) != 0) probe_setup_failed();
  if (pthread_join(thread, NULL) != 0) probe_setup_failed();
}

static inline void* probe_free_it(void* p) {
  free(p);
  return NULL;
}

#endif
