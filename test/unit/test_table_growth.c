// SPDX-License-Identifier: MIT
// The page map's near table begins small, as the option max_vabits asks, and grows when memory
// beyond it comes into use. Then every address has an entry that can be read, also where reserved
// memory cannot be (Windows).
#include <stdio.h>

#include "../../include/mimalloc.h"
#include "../../src/mem/pagemap.h"
#include "../../src/os/os.h"

#define SIZE (64 * MX_MIB)
#define SKIPPED 77

// Memory at an address beyond the table, and how far the table reaches then.
static uintptr_t bound_with(uint64_t wanted, mi_arena_id_t* id) {
  void* const memory = mx_os_map((void*)(uintptr_t)wanted, SIZE, true);
  if ((uint64_t)(uintptr_t)memory != wanted) return 0;
  if (!mi_manage_os_memory_ex(memory, SIZE, true, false, true, -1, true, id)) return 1;
  mi_heap_t* const heap = mi_heap_new_in_arena(*id);
  void* const block = mi_heap_malloc(heap, 100);
  if (block == NULL || !mi_check_owned(block)) return 1;
  mi_free(block);
  return mx_load_relaxed(&mx_pagemap_near) << MX_SLICE_SHIFT;
}

int main(void) {
  mi_free(mi_malloc(100));
  const uintptr_t before = mx_load_relaxed(&mx_pagemap_near);
  if (!MX_64BIT || MX_RANDOM_ADDRESS || before > (uintptr_t)1 << (36 - MX_SLICE_SHIFT)) {
    printf("the table is not small\n");
    return SKIPPED;
  }
  // By powers of two: as far as it needs to.
  mi_arena_id_t ids[2];
  const uintptr_t first = bound_with((uint64_t)3 << 37, &ids[0]);
  const uintptr_t bound = bound_with((uint64_t)3 << 38, &ids[1]);
  if (first == 0 || bound == 0) {
    printf("the system does not give such addresses\n");
    return SKIPPED;
  }
  printf("entries for %zu slices, then for %zu\n", (size_t)before,
         (size_t)mx_load_relaxed(&mx_pagemap_near));
  if (first != (uintptr_t)((uint64_t)1 << 39) || bound != (uintptr_t)((uint64_t)1 << 40)) return 1;
  size_t known = 0;
  for (uintptr_t p = 0; p < bound; p += (uintptr_t)MX_GIB) known += mi_is_in_heap_region((void*)p);
  return known > 3;
}
