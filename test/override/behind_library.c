// SPDX-License-Identifier: MIT
// A library with a malloc of its own that a program is linked to, as run-times of sanitizers are: behind a
// preloaded malloc none of its names may be reached, as its blocks would meet the free of the other.
#include <stddef.h>

static char memory[1 << 16];
static size_t taken;

size_t behind_taken(void);
void* malloc(size_t size);
void* calloc(size_t count, size_t size);
void* realloc(void* p, size_t size);
void* reallocarray(void* p, size_t count, size_t size);
void* memalign(size_t align, size_t size);
void* aligned_alloc(size_t align, size_t size);
void* valloc(size_t size);
void* pvalloc(size_t size);
int posix_memalign(void** p, size_t align, size_t size);
size_t malloc_usable_size(void* p);
void free(void* p);

size_t behind_taken(void) { return taken; }

// Enough for one that asks all of them once.
static void* take(size_t size) {
  const size_t begin = (taken + 4095) / 4096 * 4096;
  if (size > sizeof(memory) - begin) return NULL;
  taken = begin + (size > 0 ? size : 1);
  return memory + begin;
}

void* malloc(size_t size) { return take(size); }
void* calloc(size_t count, size_t size) { return take(count * size); }
void* realloc(void* p, size_t size) { return p == NULL ? take(size) : NULL; }
void* reallocarray(void* p, size_t count, size_t size) { return p == NULL ? take(count * size) : NULL; }
void* memalign(size_t align, size_t size) { return (void)align, take(size); }
void* aligned_alloc(size_t align, size_t size) { return (void)align, take(size); }
void* valloc(size_t size) { return take(size); }
void* pvalloc(size_t size) { return take(size); }
size_t malloc_usable_size(void* p) { return (void)p, taken += 1; }
void free(void* p) { taken += p != NULL; }

int posix_memalign(void** p, size_t align, size_t size) {
  (void)align;
  return (*p = take(size)) == NULL;
}
