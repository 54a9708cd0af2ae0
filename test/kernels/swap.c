// SPDX-License-Identifier: MIT
// More memory in use than the machine has: what the kernel swapped out comes back unchanged, through
// purging, growing and moving.
#include "guest.h"

#include <mimalloc.h>

#define BLOCK (3 * MIB + 12345)

static size_t stamp_of(size_t block, size_t at) { return block * 1000003 + at; }

static void sign(unsigned char* p, size_t block, size_t from, size_t to) {
  for (size_t i = from & ~(size_t)4095; i + 8 <= to; i += 4096) {
    const size_t stamp = stamp_of(block, i);
    memcpy(p + i, &stamp, sizeof(stamp));
  }
}

static void expect(const unsigned char* p, size_t block, size_t size) {
  for (size_t i = 0; i + 8 <= size; i += 4096) {
    size_t stamp;
    memcpy(&stamp, p + i, sizeof(stamp));
    CHECK_ROW(stamp == stamp_of(block, i), block);
  }
}

static size_t swapped_mib(void) {
  char line[128];
  unsigned long total = 0, left = 0;
  FILE* const f = fopen("/proc/meminfo", "r");
  CHECK(f != NULL);
  while (fgets(line, sizeof(line), f) != NULL) {
    sscanf(line, "SwapTotal: %lu", &total);
    sscanf(line, "SwapFree: %lu", &left);
  }
  fclose(f);
  CHECK(total > 0);
  return (total - left) / 1024;
}

int main(void) {
  const size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  const size_t count = (memory + memory / 4) / BLOCK;
  unsigned char** const blocks = (unsigned char**)mi_zalloc(count * sizeof(*blocks));
  CHECK(blocks != NULL);
  for (size_t i = 0; i < count; i++) {
    blocks[i] = (unsigned char*)mi_malloc(BLOCK);
    CHECK_ROW(blocks[i] != NULL, i);
    sign(blocks[i], i, 0, BLOCK);
  }
  const size_t swapped = swapped_mib();
  printf("%zu blocks, %zu MiB in swap\n", count, swapped);
  CHECK(swapped > 50);
  // Every other one goes, those between grow, and all is as it was.
  for (size_t i = 0; i < count; i += 2) mi_free(blocks[i]);
  mi_collect(true);
  for (size_t i = 1; i < count; i += 2) {
    blocks[i] = (unsigned char*)mi_realloc(blocks[i], BLOCK + BLOCK / 2);
    CHECK_ROW(blocks[i] != NULL, i);
    expect(blocks[i], i, BLOCK);
    sign(blocks[i], i, BLOCK, BLOCK + BLOCK / 2);
  }
  for (size_t i = 1; i < count; i += 2) {
    expect(blocks[i], i, BLOCK + BLOCK / 2);
    mi_free(blocks[i]);
  }
  mi_collect(true);
  printf("%zu MiB in swap at the end\n", swapped_mib());
  CHECK(swapped_mib() < swapped / 2 + 50);
  return 0;
}
