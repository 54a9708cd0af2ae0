// SPDX-License-Identifier: MIT
// Allocators that a replay must not praise: BAD 1 gives no block of 1000 bytes, 2 gives the same one
// again and again.
#include <stddef.h>

extern void* __libc_malloc(size_t size);
extern void __libc_free(void* block);

static void* shared;

void* malloc(size_t size) {
  if (size != 1000) return __libc_malloc(size);
  if (BAD == 1) return NULL;
  if (shared == NULL) shared = __libc_malloc(size);
  return shared;
}

void free(void* block) {
  if (block != shared) __libc_free(block);
}
