// SPDX-License-Identifier: MIT
// Alignments that pages do not have because of their colors: whoever asks for one gets it, without
// more memory than its size takes, also where pages were made before and have free blocks.
#include "expect.h"

#define LIVE 1000
#define ROUNDS 20000

static const size_t sizes[] = {256, 512, 768, 1024, 1536, 2048, 3072, 6144, 10240, 18432};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void* plain[SIZES][LIVE];

static size_t align_of(size_t size) { return size & (0 - size); }

// Pages of each size in which every other block is free.
static void make_pages(void) {
  for (size_t i = 0; i < SIZES; i++) {
    for (size_t k = 0; k < LIVE; k++) plain[i][k] = mi_malloc(sizes[i]);
    for (size_t k = 0; k < LIVE; k += 2) {
      mi_free(plain[i][k]);
      plain[i][k] = NULL;
    }
  }
}

static void free_pages(void) {
  for (size_t i = 0; i < SIZES; i++) {
    for (size_t k = 0; k < LIVE; k++) mi_free(plain[i][k]);
  }
}

// A program that has no others: after the first ones each block is as large as was asked for.
static void test_alone(size_t size) {
  const size_t align = align_of(size);
  size_t larger = 0;
  for (size_t i = 0; i < LIVE; i++) {
    void* const p = mi_malloc_aligned(size, align);
    EXPECT_AT(size, p != NULL && is_multiple(p, align));
    if (mi_usable_size(p) > mi_good_size(size)) larger++;
    if (i % 2 == 0) mi_free(p);
    else plain[0][i] = p;
  }
  for (size_t i = 1; i < LIVE; i += 2) mi_free(plain[0][i]);
  EXPECT_AT(size, larger <= 1);
}

// In turn with blocks that need no alignment.
static void test_one_by_one(size_t size) {
  const size_t align = align_of(size);
  uintptr_t least = UINTPTR_MAX, most = 0;
  for (size_t i = 0; i < ROUNDS; i++) {
    void* p = NULL;
    if (i % 4 == 0) EXPECT_AT(size, mi_posix_memalign(&p, align, size) == 0);
    else p = (i % 2 == 0 ? mi_malloc_aligned(size, align) : mi_zalloc_aligned(size, align));
    void* const other = mi_malloc(size);
    EXPECT_AT(size, p != NULL && is_multiple(p, align) && other != NULL);
    EXPECT_AT(size, mi_usable_size(p) >= size && mi_usable_size(p) < 2 * size);
    EXPECT_AT(size, mi_heap_contains_block(mi_heap_main(), p));
    EXPECT_AT(size, i % 2 == 0 || is_filled(p, size, 0));
    if (i >= ROUNDS / 2 && (uintptr_t)p < least) least = (uintptr_t)p;
    if (i >= ROUNDS / 2 && (uintptr_t)p > most) most = (uintptr_t)p;
    memset(p, 1, size);
    mi_free(p);
    mi_free(other);
  }
  // They come from a page or two, and not from a new one each.
  if (!MX_SCATTER && !MX_QUARANTINE) EXPECT_AT(size, most - least < (size <= 4096 ? 4 : 64) * 65536);
}

// Blocks of no bytes have an address of their own: what is behind it is another's.
static void test_empty(size_t size) {
  static unsigned char* blocks[2 * LIVE];
  for (size_t i = 0; i < 2 * LIVE; i++) {
    const size_t bytes = (i % 2 == 0 ? 0 : size / 2);
    blocks[i] = (unsigned char*)mi_malloc_aligned(bytes, i % 2 == 0 ? size : 16);
    EXPECT_AT(size, blocks[i] != NULL && (i % 2 != 0 || is_multiple(blocks[i], size)));
    if (i % 2 != 0) memset(blocks[i], (int)i, bytes);
  }
  for (size_t i = 0; i < 2 * LIVE; i += 2) mi_free(blocks[i]);
  for (size_t i = 1; i < 2 * LIVE; i += 2) {
    EXPECT_AT(size, is_filled(blocks[i], size / 2, (unsigned char)i));
    mi_free(blocks[i]);
  }
}

// The same at an offset, whatever the page.
static void test_empty_at(void) {
  for (size_t align = 32; align <= 4096; align *= 2) {
    unsigned char* blocks[64];
    for (size_t i = 0; i < 64; i++) {
      blocks[i] = (unsigned char*)(i % 2 == 0 ? mi_malloc_aligned_at(0, align, 16) : mi_malloc(align - 16));
      EXPECT_AT(align, blocks[i] != NULL && (i % 2 != 0 || is_multiple(blocks[i] + 16, align)));
      if (i % 2 != 0) memset(blocks[i], (int)i, align - 16);
    }
    for (size_t i = 0; i < 64; i += 2) mi_free(blocks[i]);
    for (size_t i = 1; i < 64; i += 2) {
      EXPECT_AT(align, is_filled(blocks[i], align - 16, (unsigned char)i));
      mi_free(blocks[i]);
    }
  }
}

// More than there were pages for.
static void test_many(size_t size) {
  static void* blocks[LIVE];
  const size_t align = align_of(size);
  for (size_t i = 0; i < LIVE; i++) {
    blocks[i] = mi_malloc_aligned(size, align);
    EXPECT_AT(size, blocks[i] != NULL && is_multiple(blocks[i], align));
    memset(blocks[i], (int)i, size);
  }
  for (size_t i = 0; i < LIVE; i++) {
    EXPECT_AT(size, is_filled(blocks[i], size, (unsigned char)i));
    blocks[i] = mi_realloc_aligned(blocks[i], size + 1, align);
    EXPECT_AT(size, blocks[i] != NULL && is_multiple(blocks[i], align));
    EXPECT_AT(size, is_filled(blocks[i], size, (unsigned char)i));
  }
  for (size_t i = 0; i < LIVE; i++) mi_free(blocks[i]);
}

int main(void) {
  test_alone(256);
  test_alone(1024);
  make_pages();
  for (size_t i = 0; i < SIZES; i++) test_one_by_one(sizes[i]);
  test_empty(256);
  test_empty(512);
  test_empty_at();
  for (size_t i = 0; i < SIZES; i++) test_many(sizes[i]);
  free_pages();
  mi_collect(true);
  return expect_end("colors");
}
