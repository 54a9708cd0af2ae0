// SPDX-License-Identifier: MIT
// The page map's near table begins small, as the option max_vabits asks, and grows when memory
// beyond it comes into use. Then every address has an entry that can be read, also where reserved
// memory cannot be (Windows).
#include <stdio.h>
#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "../../include/mimalloc.h"
#include "../../src/mem/pagemap.h"
#include "../../src/os/os.h"

#define SIZE (64 * MX_MIB)
#define SKIPPED 77

static uintptr_t bound(void) {
  return (mx_load_relaxed(&mx_pagemap_near) + 1) << MX_SLICE_SHIFT;
}

// Whether the system gives memory at this address.
static bool is_given(uint64_t wanted) {
  return (uint64_t)(uintptr_t)mx_os_map((void*)(uintptr_t)wanted, SIZE, true) == wanted;
}

// A block of the memory there, or NULL where it is not found.
static void* block_at(uint64_t given, mi_arena_id_t* id) {
  void* const memory = (void*)(uintptr_t)given;
  if (!mi_manage_os_memory_ex(memory, SIZE, true, false, true, -1, true, id)) return NULL;
  void* const block = mi_heap_malloc(mi_heap_new_in_arena(*id), 100);
  return mi_check_owned(block) ? block : NULL;
}

// Memory at an address beyond the table, and how far the table reaches then.
static uintptr_t bound_with(uint64_t wanted, mi_arena_id_t* id) {
  if (!is_given(wanted)) return 0;
  void* const block = block_at(wanted, id);
  if (block == NULL) return 1;
  mi_free(block);
  return bound();
}

// The first slice behind the largest table, and the last ones in it, are in different tables.
static bool is_found_at_the_end(void) {
  const uint64_t end = (uint64_t)1 << 41;
  if (!is_given(end) || !is_given(end - SIZE)) return true;
  mi_arena_id_t ids[2];
  void* const behind = block_at(end, &ids[0]);
  void* const within = block_at(end - SIZE, &ids[1]);
  return behind != NULL && within != NULL && bound() == end && mi_check_owned(behind);
}

#if !defined(_WIN32)
// Once something else lies behind the table, it stays as it is also when that is gone: an address is
// looked for in one place only.
static int cannot_grow(void) {
  void* const end = (uint8_t*)mx_pagemap_table + mx_pagemap_near_size;
  const size_t size = MX_SLICE_SIZE;
  const uintptr_t before = bound();
  mi_arena_id_t ids[2];
  if (mx_os_map(end, size, true) != end) return SKIPPED;
  const uintptr_t first = bound_with((uint64_t)3 << 37, &ids[0]);
  mx_os_unmap(end, size);
  const uintptr_t second = bound_with((uint64_t)5 << 37, &ids[1]);
  if (first == 0 || second == 0) return SKIPPED;
  return first != before || second != before;
}

static bool child_cannot_grow(void) {
  int status = 1;
  const pid_t child = fork();
  if (child == 0) _exit(cannot_grow());
  if (waitpid(child, &status, 0) != child) return false;
  return status == 0 || WEXITSTATUS(status) == SKIPPED;
}
#else
static bool child_cannot_grow(void) { return true; }
#endif

int main(void) {
  mi_free(mi_malloc(100));
  const uintptr_t before = bound();
  if (!MX_64BIT || MX_RANDOM_ADDRESS || (uint64_t)before > (uint64_t)1 << 36) {
    printf("the table is not small\n");
    return SKIPPED;
  }
  if (!child_cannot_grow()) {
    printf("the table grew after it could not, or a block was not found\n");
    return 1;
  }
  // By powers of two: as far as it needs to.
  mi_arena_id_t ids[2];
  const uintptr_t first = bound_with((uint64_t)3 << 37, &ids[0]);
  const uintptr_t second = bound_with((uint64_t)3 << 38, &ids[1]);
  if (first == 0 || second == 0) {
    printf("the system does not give such addresses\n");
    return SKIPPED;
  }
  printf("entries for addresses to %zx, then to %zx\n", (size_t)before, (size_t)second);
  if (first != (uintptr_t)((uint64_t)1 << 39) || second != (uintptr_t)((uint64_t)1 << 40)) return 1;
  size_t known = 0;
  for (uintptr_t p = 0; p < second; p += (uintptr_t)MX_GIB) known += mi_is_in_heap_region((void*)p);
  if (!is_found_at_the_end()) {
    printf("a block at the end of the largest table, or behind it, was not found\n");
    return 1;
  }
  return known > 3;
}
