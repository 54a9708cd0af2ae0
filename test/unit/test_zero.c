// SPDX-License-Identifier: MIT
// Long ranges that have to read as zero: whatever they held and however much of it is present, all of it is
// zero and nothing beside it, and what nobody needs memory for gets none.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../../src/mem/vmem.h"
#include "../../src/os/os.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

#define SIZE (24 * MX_MIB)

static bool is_all(const uint8_t* p, size_t size, uint8_t value) {
  return size == 0 || (*p == value && memcmp(p, p + 1, size - 1) == 0);
}

static size_t present(void) {
  size_t rss = 0;
  mi_process_info(NULL, NULL, NULL, &rss, NULL, NULL, NULL, NULL);
  return rss;
}

// Of each MiB another part was written: none, one OS page, each second one, all, the last one.
static void write_some(uint8_t* p, size_t from, size_t to) {
  const size_t page = mx_facts.os_page;
  for (size_t at = from; at < to; at += page) {
    const size_t number = at % MX_MIB / page;
    switch (at / MX_MIB % 5) {
      case 0: break;
      case 1: if (number == 7) p[at] = 1; break;
      case 2: if (number % 2 == 0) p[at + 8] = 1; break;
      case 3: memset(p + at, 3, page); break;
      default: if (at + page >= to || number == MX_MIB / page - 1) p[at + page - 1] = 1; break;
    }
  }
}

static void test_ranges(void) {
  static const size_t odd[] = {0, 1, 8, 48, 4095, 4096, 65536, MX_MIB - 1};
  uint8_t* const p = (uint8_t*)mx_vmem_map(SIZE, MX_SLICE_SIZE, true);
  EXPECT(p != NULL);
  if (p == NULL) return;
  for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
    for (size_t k = 0; k < sizeof(odd) / sizeof(odd[0]); k++) {
      const size_t from = MX_MIB + odd[i], to = SIZE - MX_MIB - odd[k];
      write_some(p, 0, SIZE);
      memset(p + from - 512, 5, 512);
      memset(p + to, 5, 512);
      p[from] = p[to - 1] = 7;
      mx_vmem_clear(p + from, to - from);
      EXPECT(is_all(p + from, to - from, 0));
      EXPECT(is_all(p + from - 512, 512, 5) && is_all(p + to, 512, 5));
    }
  }
  memset(p, 9, SIZE);
  mx_vmem_clear(p + 100, 3 * MX_MIB);
  EXPECT(is_all(p + 100, 3 * MX_MIB, 0) && is_all(p, 100, 9) && p[100 + 3 * MX_MIB] == 9);
  mx_vmem_unmap(p, SIZE, 0);
}

// A program whose large tables stay nearly empty, one after the other.
static void test_blocks(void) {
  const size_t size = 64 * MX_MIB;
  volatile size_t sum = 0;
  for (int round = 0; round < 4; round++) {
    const size_t before = present();
    uint8_t* const p = (uint8_t*)mi_calloc(1, size);
    EXPECT(p != NULL);
    if (p == NULL) return;
    for (size_t at = 0; at < size; at += mx_facts.os_page) sum += p[at];
    EXPECT(sum == 0);
    p[round * MX_MIB] = p[size - 1] = 1;
#ifdef __linux__
    EXPECT(present() < before + 8 * MX_MIB);
#endif
    mi_free(p);
  }
  uint8_t* p = (uint8_t*)mi_zalloc(10 * MX_MIB);
  memset(p, 1, 10 * MX_MIB);
  p = (uint8_t*)mi_rezalloc(p, 40 * MX_MIB);
  EXPECT(p != NULL && is_all(p, 10 * MX_MIB, 1) && is_all(p + 10 * MX_MIB, 30 * MX_MIB, 0));
  mi_free(p);
  p = (uint8_t*)mi_calloc(40, MX_MIB);
  EXPECT(p != NULL && is_all(p, 40 * MX_MIB, 0));
  mi_free(p);
}

// Blocks that move when they grow, from among used memory: neither from the place that they leave
// nor from that to which they come is anything seen.
static void test_growth(void) {
  enum { COUNT = 8 };
  uint8_t* used[COUNT];
  for (size_t size = 560 * MX_KIB; size < 6 * MX_MIB; size += size / 3 + 4968) {
    for (int i = 0; i < COUNT; i++) {
      used[i] = (uint8_t*)mi_malloc(2 * size);
      if (used[i] != NULL) memset(used[i], 0x5A, 2 * size);
    }
    for (int i = 0; i < COUNT; i++) mi_free(used[i]);
    uint8_t* p = (uint8_t*)mi_zalloc(size);
    void* const beside = mi_malloc(size);
    if (p != NULL) memset(p, 1, size);
    p = (uint8_t*)mi_rezalloc(p, 2 * size + 100);
    EXPECT(p != NULL && is_all(p, size, 1) && is_all(p + size, size + 100, 0));
    mi_free(p);
    mi_free(beside);
  }
}

// Ranges of any length that end where nothing can be read.
static void test_looks(void) {
  const size_t unit = mx_facts.os_page;
  for (size_t pages = 16; pages < 200; pages += 5) {
    uint8_t* const p = (uint8_t*)mx_vmem_map((pages + 1) * unit, unit, true);
    EXPECT(p != NULL);
    if (p == NULL) return;
    for (size_t i = 0; i < pages; i++) p[(i + 1) * unit - 1] = 1;
    mx_os_protect(p + pages * unit, unit, false);
    EXPECT(mx_vmem_seems_written(p, pages * unit));
    memset(p + pages * unit / 2, 0, pages * unit - pages * unit / 2);
    EXPECT(!mx_vmem_seems_written(p, pages * unit));
    mx_vmem_unmap(p, (pages + 1) * unit, 0);
  }
}

// Copies of any length and place hold what was copied, also where zeros replace something, and have
// memory for that alone.
static void test_copies(void) {
  uint8_t* const from = (uint8_t*)mx_vmem_map(SIZE, mx_facts.os_page, true);
  write_some(from, 0, SIZE);
  static const size_t offsets[] = {0, 24, 4096};
  for (int i = 0; i < 3; i++) {
    uint8_t* const to = (uint8_t*)mx_vmem_map(SIZE, mx_facts.os_page, true);
    EXPECT(to != NULL);
    mx_os_refuse_large(to, SIZE);  // where they are given unasked, one byte is 2 MiB
    memset(to + 3000, 5, 9000);
    const size_t size = SIZE - offsets[i] - 100, before = present();
    mx_vmem_copy(to, from + offsets[i], size);
    EXPECT(present() - before <= SIZE / 2 || present() < before);
    EXPECT(memcmp(to, from + offsets[i], size) == 0 && is_all(to + size, SIZE - size, 0));
    mx_vmem_copy(to, from, 1000);
    EXPECT(memcmp(to, from, 1000) == 0);
    mx_vmem_unmap(to, SIZE, 0);
  }
  mx_vmem_unmap(from, SIZE, 0);
}

int main(void) {
  mi_free(mi_malloc(1));
  test_copies();
  test_looks();
  test_ranges();
  test_blocks();
  test_growth();
  printf("zero: %d failures\n", failures);
  return failures != 0;
}
