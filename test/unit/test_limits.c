// SPDX-License-Identifier: MIT
// The limit of memory that the option memory_limit sets: as large as it says, at least 1 MiB, and
// none where it says nothing. And how much went back of pages in use, as the caller is told.
#include <stdio.h>

#include "../../include/mimalloc.h"
#include "../../src/base/options.h"
#include "../../src/mem/vmem.h"
#include "../../src/os/os.h"
#include "../../src/page/holes.h"
#include "../../src/service/give_back.h"

#define BLOCKS 20000  // of 64 bytes, in pages of 1,024
#define STAYS 1000    // one of so many

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static size_t limit_of(long kib) {
  mi_option_set(mi_option_memory_limit, kib);
  mx_limits_apply();
  return mx_load_relaxed(&mx_memory_limit.bytes);
}

static int64_t holes(void) { return mx_load_relaxed(&mx_process_counters.holes_purged); }

// Builds that keep track of each block make no holes.
static void test_given_back(void) {
  static void* blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) blocks[i] = mi_malloc(64);
  for (size_t i = 0; i < BLOCKS; i++) {
    if (i % STAYS != 0) mi_free(blocks[i]);
  }
  const int64_t before = holes();
  const size_t bytes = mi_purge_holes();
  EXPECT((int64_t)bytes == holes() - before);
  EXPECT(bytes > 0 || !MX_HOLES || !mx_os_barrier_all());
  for (size_t i = 0; i < BLOCKS; i += STAYS) mi_free(blocks[i]);
}

int main(void) {
  mi_free(mi_malloc(1));
  test_given_back();
  mi_option_set(mi_option_cgroup_limit, 0);
  EXPECT(limit_of(0) == 0);
  EXPECT(limit_of(5000) == (size_t)5000 * 1024);
  EXPECT(limit_of(1024) == (size_t)1024 * 1024);
  EXPECT(limit_of(1) == (size_t)1024 * 1024);
  mi_option_set(mi_option_memory_limit_hard, 1);
  EXPECT(limit_of(70000) == (size_t)70000 * 1024 && mx_load_relaxed(&mx_memory_limit.is_hard));
  mi_option_set(mi_option_memory_limit_hard, 0);
  EXPECT(limit_of(0) == 0 && !mx_load_relaxed(&mx_memory_limit.is_hard));
  printf("%d failures\n", failures);
  return failures != 0;
}
