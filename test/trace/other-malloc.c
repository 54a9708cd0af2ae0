// SPDX-License-Identifier: MIT
// Another malloc, as a program may be linked with, or have preloaded: it ends the process when it is
// asked about a block that it did not give. Under its own names and operators of C++ it gives blocks.
#include <stdint.h>
#include <stdlib.h>

#define MAGIC UINT64_C(0x7468657365617265)

typedef struct block_s {
  uint64_t magic;
  size_t size;
} block_t;

static _Alignas(16) char memory[1 << 20];
static size_t used;

static block_t* block_of(void* p) {
  block_t* block = (block_t*)p - 1;
  if ((uintptr_t)p - (uintptr_t)memory >= sizeof(memory) || block->magic != MAGIC) abort();
  return block;
}

static void* give(size_t size) {
  const size_t all = (size + sizeof(block_t) + 15) & ~(size_t)15;
  const size_t at = __atomic_fetch_add(&used, all, __ATOMIC_RELAXED);
  if (at + all > sizeof(memory)) return NULL;
  block_t* block = (block_t*)(memory + at);
  *block = (block_t){MAGIC, size};
  return block + 1;
}

void* malloc(size_t size) { return give(size); }
void* __libc_malloc(size_t size) { return give(size); }
void* __libc_calloc(size_t count, size_t size) { return give(count * size); }
void* __libc_memalign(size_t alignment, size_t size) { return alignment <= 16 ? give(size) : NULL; }
void* _Znwm(size_t size) { return give(size); }
size_t malloc_usable_size(void* p) { return p == NULL ? 0 : block_of(p)->size; }

static void drop(void* p) {
  if (p != NULL) block_of(p)->magic = 0;
}

void free(void* p) { drop(p); }
void __libc_free(void* p) { drop(p); }
void _ZdlPv(void* p) { drop(p); }

int mallopt(int parameter, int value) {
  (void)parameter, (void)value;
  abort();
}

static void* resize(void* p, size_t size) {
  void* fresh = give(size);
  const size_t n = p == NULL || fresh == NULL ? 0 : block_of(p)->size;
  for (size_t i = 0; i < n && i < size; i++) ((char*)fresh)[i] = ((char*)p)[i];
  if (fresh != NULL) drop(p);
  return fresh;
}

void* realloc(void* p, size_t size) { return resize(p, size); }
void* __libc_realloc(void* p, size_t size) { return resize(p, size); }
void* calloc(size_t count, size_t size) { return give(count * size); }
