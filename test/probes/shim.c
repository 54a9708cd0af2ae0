// SPDX-License-Identifier: MIT
// A toy allocator that the scorer's own tests preload.
//
// Blocks are carved off one large mapping and never used again; 16 bytes in front of each hold its
// size and whether it was freed. SHIM says how it behaves, so that each outcome that the scorer
// tells apart, and each way in which its gate fails, is seen with a known cause:
//
//   BLIND     ignores every free
//   WATCHFUL  reports a double free and aborts
//   LENIENT   reports a double free and goes on
//   STUCK     waits for ever at a double free
//   NERVOUS   reports every free and goes on: false alarms
//   DEADLY    aborts at every free: no honest program survives it
//
// Invariant: `used` only grows, so blocks of different threads never overlap.
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLIND, WATCHFUL, LENIENT, STUCK, NERVOUS, DEADLY };

#define SPACE ((size_t)16 << 30)
#define FREED ((size_t)0x66726565)

typedef struct header {
  size_t size;
  _Atomic(size_t) state;
} header_t;

static _Atomic(uintptr_t) space;
static _Atomic(size_t) used;

static uintptr_t base(void) {
  uintptr_t known = atomic_load(&space);
  if (known != 0) return known;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* map = mmap(NULL, SPACE, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (map == MAP_FAILED) abort();
  if (atomic_compare_exchange_strong(&space, &known, (uintptr_t)map)) return (uintptr_t)map;
  munmap(map, SPACE);
  return known;
}

static void* carve(size_t alignment, size_t n) {
  if (n > SPACE / 2) return NULL;
  const size_t span = sizeof(header_t) + alignment + n;
  const size_t at = atomic_fetch_add(&used, span);
  if (at > SPACE - span) return NULL;
  const uintptr_t first = base() + at + sizeof(header_t);
  const uintptr_t block = (first + alignment - 1) / alignment * alignment;
  header_t* header = (header_t*)block - 1;
  header->size = n;
  atomic_store(&header->state, 0);
  return (void*)block;
}

static void report(void) {
  static const char text[] = "shim: free of a bad pointer\n";
  if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0) abort();
}

void free(void* p) {
  if (p == NULL) return;
  if (SHIM == DEADLY) abort();
  if (SHIM == NERVOUS) report();
  const size_t before = atomic_exchange(&((header_t*)p - 1)->state, FREED);
  if (before != FREED) return;
  if (SHIM == WATCHFUL || SHIM == LENIENT) report();
  if (SHIM == WATCHFUL) abort();
  while (SHIM == STUCK) pause();
}

void* malloc(size_t n) {
  return carve(16, n);
}

void* calloc(size_t count, size_t n) {
  if (n != 0 && count > SIZE_MAX / n) return NULL;
  return carve(16, count * n);
}

size_t malloc_usable_size(void* p) {
  return p == NULL ? 0 : ((header_t*)p - 1)->size;
}

void* realloc(void* p, size_t n) {
  void* q = carve(16, n);
  const size_t old = malloc_usable_size(p);
  if (q == NULL) return NULL;
  if (p != NULL) memcpy(q, p, old < n ? old : n);
  free(p);
  return q;
}

int posix_memalign(void** result, size_t alignment, size_t n) {
  *result = carve(alignment < 16 ? 16 : alignment, n);
  return *result == NULL ? 12 : 0;
}

void* aligned_alloc(size_t alignment, size_t n) {
  return carve(alignment < 16 ? 16 : alignment, n);
}
