// SPDX-License-Identifier: MIT
// Addresses that are chosen, also when all of a zone have been once; mappings of any alignment; the page
// map where there is no table; and the count of nodes.
#include <stdio.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../../src/base/options.h"
#include "../../src/mem/numa.h"
#include "../../src/mem/pagemap.h"
#include "../../src/mem/vmem.h"
#include "../../src/os/os.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static bool lies_in(const void* p, size_t size, uint64_t first, uint64_t end) {
  return (uintptr_t)p >= first && (uintptr_t)p + size <= end && (uintptr_t)p % MX_SLICE_SIZE == 0;
}

#define FAR_FIRST ((uint64_t)1 << 44)
#define FAR_END ((uint64_t)3 << 44)
#define ONCE_FIRST (FAR_END + ((uint64_t)1 << 40))
#define ONCE_END ((uint64_t)5 << 44)

static void test_round_again(void) {
  const size_t half = (size_t)((FAR_END - FAR_FIRST) / 2);
  for (size_t size = half; size >= MX_GIB; size = size / 3 * 2) {
    for (int i = 0; i < 5; i++) {
      EXPECT(lies_in(mx_vmem_place(MX_ZONE_FAR, size, 1), size, FAR_FIRST, FAR_END));
      EXPECT(lies_in(mx_vmem_place(MX_ZONE_FAR, MX_MIB, MX_GIB), MX_MIB, FAR_FIRST, FAR_END));
    }
  }
  EXPECT(mx_vmem_place(MX_ZONE_FAR, half + MX_SLICE_SIZE, 1) == NULL);
  EXPECT(mx_vmem_place(MX_ZONE_FAR, MX_MIB, 2 * half) == NULL);
  EXPECT(mx_vmem_place(MX_ZONE_NEAR, SIZE_MAX / 2 + 1, 1) == NULL);
  EXPECT(mx_vmem_place(MX_ZONE_NEAR, SIZE_MAX / 4, 1) == NULL);  // near is less than that
  if (!mx_vmem_has_once()) return;
  const size_t quarter = (size_t)((ONCE_END - ONCE_FIRST) / 4);
  for (int i = 0; i < 12; i++) {
    EXPECT(lies_in(mx_vmem_place(MX_ZONE_ONCE, quarter, 1), quarter, ONCE_FIRST, ONCE_END));
    EXPECT(lies_in(mx_vmem_place(MX_ZONE_ONCE, MX_MIB, 1), MX_MIB, ONCE_FIRST, ONCE_END));
  }
  EXPECT(mx_vmem_place(MX_ZONE_ONCE, quarter + MX_SLICE_SIZE, 1) == NULL);
  // Such a place never comes again.
  void* const once = mx_vmem_place(MX_ZONE_ONCE, MX_MIB, 1);
  mx_vmem_placed_is_free(MX_ZONE_ONCE, once, MX_MIB);
  EXPECT(mx_vmem_place(MX_ZONE_ONCE, MX_MIB, 1) != once);
}

// A far place that was given back is the next one, where places are in order.
static void test_given_back(void) {
  uint8_t* const a = (uint8_t*)mx_vmem_place(MX_ZONE_FAR, MX_GIB, 1);
  uint8_t* const b = (uint8_t*)mx_vmem_place(MX_ZONE_FAR, MX_GIB, 1);
  mx_vmem_placed_is_free(MX_ZONE_FAR, b, MX_GIB);
  mx_vmem_placed_is_free(MX_ZONE_FAR, b + MX_GIB, MX_GIB);  // nobody was there
  mx_vmem_placed_is_free(MX_ZONE_FAR, &failures, 1);        // nor is that far
  const uint8_t* const again = (uint8_t*)mx_vmem_place(MX_ZONE_FAR, MX_GIB, 1);
  EXPECT(MX_RANDOM_ADDRESS ? again != b : again == b && a < b);
}

// Where not all is lent that is asked for, a small machine does not have so much.
static bool is_lent(size_t size) {
  void* const p = mx_os_map(NULL, size, true);
  return p != NULL && mx_os_unmap(p, size);
}

static void test_aligned(void) {
  const int64_t before = mx_load_relaxed(&mx_process_counters.reserved.current);
  for (size_t align = mx_facts.os_page; align <= 4 * MX_GIB; align *= 4) {
    if (align > MX_GIB && !is_lent(align + 64 * MX_KIB)) break;
    for (size_t size = mx_facts.os_page; size <= 64 * MX_KIB; size *= 16) {
      unsigned char* const p = (unsigned char*)mx_vmem_map(size, align, true);
      EXPECT(p != NULL && mx_is_aligned(p, align) && p[0] == 0 && p[size - 1] == 0);
      if (p == NULL) continue;
      memset(p, 1, size);
      EXPECT(mx_load_relaxed(&mx_process_counters.reserved.current) == before + (int64_t)size);
      // What was cut off is nobody's: it can be had.
      if (MX_MAPS_WHOLE) {
        EXPECT(mx_vmem_unmap(p, size, 0));
        continue;
      }
      void* const behind = mx_os_map(p + size, mx_facts.os_page, true);
      EXPECT(behind != NULL && mx_os_unmap(behind, mx_facts.os_page));
      EXPECT(mx_vmem_unmap(p, size, 0));
    }
  }
  // A 32-bit process may have half of its addresses free.
  EXPECT(!MX_64BIT || mx_vmem_map(SIZE_MAX / 2, mx_facts.os_page, false) == NULL);
  EXPECT(mx_load_relaxed(&mx_process_counters.reserved.current) == before);
}

// ---- the page map ------------------------------------------------------------------------------

static mx_aligned(128) uint8_t record[MX_PAGE_RECORD_SIZE];

static void test_forget(void) {
  enum { SLICES = 3000 };
  const uintptr_t start = (uintptr_t)((uint64_t)7 << 44) + 5 * MX_SLICE_SIZE;
  mx_page_t* const page = (mx_page_t*)(void*)record;
  mx_pagemap_forget((void*)start, SLICES);  // no table is there, and none is made for that
  EXPECT(mx_pagemap_set((void*)start, SLICES, NULL));
  EXPECT(mx_pagemap_is_none(mx_pagemap_get((void*)start)));
  EXPECT(mx_pagemap_set((void*)start, SLICES, page));
  for (size_t i = 0; i < SLICES; i++) {
    EXPECT(mx_pagemap_get((void*)(start + i * MX_SLICE_SIZE)) == page);
  }
  EXPECT(mx_pagemap_find((void*)(start + SLICES * MX_SLICE_SIZE)) == NULL);
  mx_pagemap_forget((void*)start, 3);  // less than an OS page of the table
  EXPECT(mx_pagemap_get((void*)start) == page);
  mx_pagemap_forget((void*)start, SLICES);
  size_t left = 0;
  for (size_t i = 0; i < SLICES; i++) {
    left += (mx_pagemap_get((void*)(start + i * MX_SLICE_SIZE)) == page);
  }
  EXPECT(left < 2 * mx_facts.os_page / sizeof(void*));
  EXPECT(mx_pagemap_set((void*)start, SLICES, NULL));
  EXPECT(mx_pagemap_is_none(mx_pagemap_get((void*)start)));
  // Addresses that no table is for.
  void* const beyond = (void*)(uintptr_t)((uint64_t)1 << 57);
  EXPECT(!mx_pagemap_set(beyond, 1, page));
  EXPECT(mx_pagemap_find(beyond) == NULL);
  EXPECT(mx_pagemap_init());  // a second time
}

static void test_nodes(void) {
  mi_option_set(mi_option_use_numa_nodes, 3);
  EXPECT(mx_numa_count() == 3 && mx_numa_current() < 3);
  mi_option_set(mi_option_use_numa_nodes, 0);
  EXPECT(mx_numa_count() == mx_os_numa_count() && mx_numa_current() < mx_numa_count());
  mi_option_set(mi_option_use_numa_nodes, 1);
  EXPECT(mx_numa_count() == 1 && mx_numa_current() == 0);
  mi_option_set(mi_option_use_numa_nodes, 0);
}

int main(void) {
  mi_option_set(mi_option_max_warnings, 0);
  mi_free(mi_malloc(1));
  test_nodes();
  test_aligned();
  if (MX_64BIT && mx_facts.va_bits >= 47 && MX_PIECEWISE) {
    test_given_back();
    test_forget();
    test_round_again();
  }
  printf("places: %d failures\n", failures);
  return failures != 0;
}
