// SPDX-License-Identifier: MIT
// What is begun and then refused leaves nothing behind: neither addresses nor records are lost,
// however often that happens.
#include "../stress.h"

#include "alloc/harden.h"
#include "arena/arena.h"
#include "heap/subproc.h"
#include "mem/pagemap.h"
#include "mem/vmem.h"
#include "mimalloc.h"
#include "mock_os.h"
#include "os/os.h"

#define TIMES 20000

static int64_t reserved(void) { return mx_load_relaxed(&mx_process_counters.reserved.current); }
static int64_t metadata(void) { return mx_load_relaxed(&mx_process_counters.metadata.current); }

static mx_aligned(128) uint8_t record[MX_PAGE_RECORD_SIZE];

static bool enter(uintptr_t at) {
  return mx_pagemap_set((void*)at, 1, (mx_page_t*)(void*)record);
}

// A table for far addresses: its mapping is refused, then the chunk for its record.
static void far_tables(void) {
  const uintptr_t far = (uintptr_t)5 << 44;
  const int64_t metadata_before = metadata(), reserved_before = reserved();
  for (int i = 0; i < TIMES; i++) {
    mock_fail_next();
    check(!enter(far));
  }
  check(metadata() == metadata_before);
  check(reserved() == reserved_before);
  for (void* p = record; p != NULL; p = mx_meta_alloc(64)) mock_fail_next();
  for (int i = 0; i < 100; i++) {
    mock_fail_after(1);
    check(!enter(far));
  }
  mock_heal();
  check(reserved() == reserved_before);
  check(enter(far));
  check(mx_pagemap_get((void*)far) == (mx_page_t*)(void*)record);
}

// Arenas whose records are refused: the addresses are the next ones'.
static void arenas(void) {
  const uintptr_t near_before = mx_load_relaxed(&mx_pagemap_near);
  const int64_t reserved_before = reserved();
  for (int i = 0; i < 200; i++) {
    mock_fail_after(1);
    check(mi_reserve_os_memory((size_t)1 << 30, false, false) != 0);
  }
  mock_heal();
  check(reserved() == reserved_before);
  mi_arena_id_t id;
  check(mi_reserve_os_memory_ex((size_t)1 << 30, false, false, false, &id) == 0);
  check(mx_pagemap_is_near(mi_arena_area(id, NULL)));
  check(mx_load_relaxed(&mx_pagemap_near) == near_before);
}

// An arena that is to be writable as a whole, of more than the system lends at once: it has to be an
// arena still, or every page that it would have held is a mapping of its own.
static void eager_arena(void) {
  mi_option_set(mi_option_arena_eager_commit, 1);
  mock_fail_next();
  mx_arena_t* const arena = mx_arena_reserve(&mx_subproc_main.arenas, 1, -1);
  mock_heal();
  mi_option_set(mi_option_arena_eager_commit, 2);
  check(arena != NULL && arena->slices * MX_SLICE_SIZE >= (size_t)MX_ARENA_MIN_SIZE);
}

// Slices for blocks of no bytes that cannot be made inaccessible: the first leaves a slice, its
// record of less than a KiB and its table of places, and all the others use these.
static void zero_sized_blocks(void) {
  enum { PLACES = MX_SLICE_SIZE / MX_ALIGN };
  for (int k = 0; k < PLACES; k++) check(mx_zero_sized_alloc(1) != NULL);
  const int64_t metadata_before = metadata(), reserved_before = reserved();
  mock_protect_fails(true);
  for (int i = 0; i < TIMES / 10; i++) check(mx_zero_sized_alloc(1) == NULL);
  mock_protect_fails(false);
  check(metadata() - metadata_before <= (int64_t)(MX_MIB / 4));
  check(reserved() - reserved_before <= (int64_t)(MX_MIB / 4));
  check(mx_zero_sized_alloc(1) != NULL);
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  mi_option_set(mi_option_max_warnings, 0);
  mi_free(mi_malloc(100));
  if (MX_64BIT && !MX_RANDOM_ADDRESS) {
    far_tables();
    arenas();
    eager_arena();
  }
  if (MX_ZERO_BLOCKS) zero_sized_blocks();
  printf("ok\n");
  return 0;
}
