// SPDX-License-Identifier: MIT
// Anonymous mappings on Windows, as far as the tests use them. What may be accessed is committed.
#ifndef TEST_WINDOWS_MMAN_H
#define TEST_WINDOWS_MMAN_H

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_PRIVATE 0
#define MAP_ANONYMOUS 0
#define MAP_NORESERVE 0
#define MAP_FAILED ((void*)-1)

static inline void* mmap(void* hint, size_t size, int prot, int flags, int fd, long offset) {
  (void)flags, (void)fd, (void)offset;
  const DWORD type = MEM_RESERVE | (prot != PROT_NONE ? MEM_COMMIT : 0);
  void* const p = VirtualAlloc(hint, size, type, PAGE_READWRITE);
  return p == NULL ? MAP_FAILED : p;
}

static inline int mprotect(void* p, size_t size, int prot) {
  if (prot == PROT_NONE) return VirtualFree(p, size, MEM_DECOMMIT) ? 0 : -1;
  return VirtualAlloc(p, size, MEM_COMMIT, PAGE_READWRITE) != NULL ? 0 : -1;
}

#define MADV_DONTNEED 4

// Memory that was decommitted has no contents; that of an inaccessible range is.
static inline int madvise(void* p, size_t size, int advice) {
  (void)p, (void)size, (void)advice;
  return 0;
}

static inline int munmap(void* p, size_t size) {
  (void)size;
  return VirtualFree(p, 0, MEM_RELEASE) ? 0 : -1;
}

#endif
