// SPDX-License-Identifier: MIT
// What the layout of a hardened build stops in the very instruction: each crime is committed by a
// child, which has to end by a fault, and its innocent twin, which has to reach its end.
#include <mimalloc.h>
#include <signal.h>
#include <stdint.h>

#include "../child.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define LARGE ((size_t)200000)  // a multiple of 16: no slack behind it

static volatile size_t step;  // 0 for the innocent

static volatile char* volatile at;

static void past_end(const void* argument) {
  (void)argument;
  at = (char*)mi_malloc(LARGE);
  at[LARGE - 1] = 1;
  if (step > 0) at[LARGE] = 1;
}

static void past_end_of_huge(const void* argument) {
  (void)argument;
  at = (char*)mi_calloc(3, MIB + 16);
  at[3 * (MIB + 16) - 1] = 1;
  if (step > 0) at[3 * (MIB + 16) + 31] = 1;
}

static void before_start(const void* argument) {
  (void)argument;
  at = (char*)mi_malloc(LARGE);
  at[0] = 1;
  if (step > 0) at[-(ptrdiff_t)(4 * KIB)] = 1;
}

static void past_aligned_end(const void* argument) {
  (void)argument;
  at = (char*)mi_malloc_aligned(256 * KIB, 4 * KIB);
  if (at == NULL || (uintptr_t)at % (4 * KIB) != 0) abort();
  at[256 * KIB - 1] = 1;
  if (step > 0) at[256 * KIB] = 1;
}

static void after_free(const void* argument) {
  (void)argument;
  at = (char*)mi_malloc(LARGE);
  at[100] = 1;
  mi_free((void*)at);
  if (step > 0) at[100] = 2;
}

// Not even when as many blocks were allocated since as would come back at once elsewhere.
static void long_after_free(const void* argument) {
  (void)argument;
  void* later[200];
  at = (char*)mi_malloc(LARGE);
  at[100] = 1;
  mi_free((void*)at);
  for (int i = 0; i < 200; i++) later[i] = mi_malloc(LARGE + (size_t)i);
  for (int i = 0; i < 200; i++) ((char*)later[i])[0] = 1;
  if (step > 0) at[100] = 2;
  for (int i = 0; i < 200; i++) mi_free(later[i]);
}

static void on_and_on(const void* argument) {
  const size_t size = *(const size_t*)argument;
  for (int i = 0; i < 1000; i++) {
    if (mi_malloc(size) == NULL) abort();
  }
  at = (char*)mi_malloc(size);
  for (size_t i = 0; i < (step > 0 ? MIB : size); i++) at[i] = 1;
}

// The pages of what was freed go when it is purged.
static void in_purged_page(const void* argument) {
  (void)argument;
  static char* blocks[64 * 64];
  for (int i = 0; i < 64 * 64; i++) blocks[i] = (char*)mi_malloc(1000);
  for (int i = 0; i < 64 * 64; i++) blocks[i][0] = 1;
  at = blocks[64 * 32];
  for (int i = 0; i < 64 * 64; i++) mi_free(blocks[i]);
  mi_collect(true);
  if (step > 0) at[0] = 2;
}

// A block that realloc makes larger and smaller keeps its bytes, wherever it lies; what it leaves
// behind when it begins to grow is gone.
static void resized(const void* argument) {
  (void)argument;
  char* const first = (char*)mi_malloc(LARGE);
  memset(first, 7, LARGE);
  char* p = (char*)mi_realloc(first, 2 * LARGE);
  for (size_t size = LARGE, old; size < 40 * MIB; size += size / 3) {
    old = size;
    memset(p, 7, old);
    p = (char*)mi_realloc(p, size + size / 3);
    for (size_t i = 0; i < old; i += 997) {
      if (p[i] != 7) abort();
    }
    p = (char*)mi_realloc(mi_realloc(p, old - old / 4), size + size / 3);
  }
  p = (char*)mi_realloc(p, LARGE);
  if (p[LARGE - 1] != 7) abort();
  at = first;
  mi_free(p);
  if (step > 0) at[0] = 1;
}

static int failures;

static void expect_fault(const char* name, void (*body)(const void*), const void* argument) {
  step = 0;
  run_child(body, argument);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    printf("%s: the innocent run ended with status %d: %s\n", name, status, said);
    failures++;
  }
  step = 1;
  run_child(body, argument);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV) {
    printf("%s: no fault, but status %d: %s\n", name, status, said);
    failures++;
  }
}

int main(void) {
  static const size_t sizes[] = {24, 4000, 30000};
  expect_fault("past the end of a large block", &past_end, NULL);
  expect_fault("past the end of a huge block", &past_end_of_huge, NULL);
  expect_fault("4 KiB before a large block", &before_start, NULL);
  expect_fault("past the end of an aligned block", &past_aligned_end, NULL);
  expect_fault("in a freed large block", &after_free, NULL);
  expect_fault("in one freed long ago", &long_after_free, NULL);
  for (int i = 0; i < 3; i++) expect_fault("on and on for 1 MiB", &on_and_on, &sizes[i]);
  expect_fault("in a purged page", &in_purged_page, NULL);
  expect_fault("where a resized block was", &resized, NULL);
  printf("%d failures\n", failures);
  return failures != 0;
}
