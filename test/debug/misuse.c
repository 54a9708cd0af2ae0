// SPDX-License-Identifier: MIT
// What debug builds say of misuse: overflows to the byte, double and invalid frees, writes to freed
// blocks, lists that were written over; and the fills that make mistakes show.
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>

#include "mistakes.h"

static const size_t sizes[] = {1, 8, 13, 24, 100, 1000, 1016, 5000, 20001, 70000, 300001};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static size_t offset;  // behind the end
static size_t length;  // bytes written there

static void hide(void* p) { __asm__ volatile("" : : "r"(p) : "memory"); }

// ---- overflows ---------------------------------------------------------------------------------

static void overflow(size_t size) {
  unsigned char* const p = (unsigned char*)mi_malloc(size);
  for (size_t i = 0; i < length; i++) p[size + offset + i] ^= 0x5A;
  hide(p);
  mi_free(p);
}

static void* free_it(void* p) {
  mi_free(p);
  return NULL;
}

static void overflow_freed_elsewhere(size_t size) {
  unsigned char* const p = (unsigned char*)mi_malloc(size);
  p[size + offset] ^= 0x5A;
  hide(p);
  pthread_t thread;
  if (pthread_create(&thread, NULL, free_it, p) != 0) abort();
  pthread_join(thread, NULL);
}

static void overflow_reallocated(size_t size) {
  unsigned char* const p = (unsigned char*)mi_malloc(size);
  p[size] ^= 0x5A;
  hide(p);
  mi_free(mi_realloc(p, size + 1000));
}

static void aligned_overflow(size_t size) {
  unsigned char* const p = (unsigned char*)mi_malloc_aligned(size, 64);
  p[size + offset] ^= 0x5A;
  hide(p);
  mi_free(p);
}

static void underflow(size_t size) {
  unsigned char* const p = (unsigned char*)mi_malloc(size);
  p[-1] ^= 0x5A;
  hide(p);
  mi_free(p);
}

static void test_overflow(void) {
  static const size_t offsets[] = {0, 1, 5};
  for (size_t i = 0; i < SIZES; i++) {
    const size_t size = sizes[i];
    for (length = 1; length <= 3; length++) {
      offset = 0;
      run(overflow, size);
      EXPECT_SAID("of size %zu: write after %zu bytes; there are ", size, size);
    }
    length = 1;
    // What lies between the end and the canary is watched byte by byte.
    void* const p = mi_malloc(size);
    const size_t slack = mi_good_size(size) - size;
    mi_free(p);
    for (size_t k = 0; k < 3; k++) {
      offset = offsets[k];
      if (offset >= slack) continue;
      run(overflow, size);
      EXPECT_SAID("of size %zu: write after %zu bytes; there are ", size, size + offset);
    }
    offset = 0;
    run(overflow_freed_elsewhere, size);
    EXPECT_SAID("of size %zu: write after %zu bytes; there are ", size, size);
    run(overflow_reallocated, size);
    EXPECT_SAID("of size %zu: write after %zu bytes; there are ", size, size);
    if (size < 70000) {
      run(aligned_overflow, size);
      EXPECT_SAID("of size %zu: write after %zu bytes; there are ", size, size);
    }
    if (size >= 70000) continue;  // a block alone in its page has nothing in front
    run(underflow, size);
    EXPECT_SAID("buffer underflow of heap block");
  }
  length = 0;
  run(overflow, 100);
  EXPECT(said[0] == 0);
}

// ---- frees -------------------------------------------------------------------------------------

static void free_twice(size_t size) {
  void* volatile p = mi_malloc(size);
  mi_free(p);
  mi_free(p);
}

static void free_twice_later(size_t size) {
  void* volatile p = mi_malloc(size);
  mi_free(p);
  for (int i = 0; i < 5; i++) mi_free(mi_malloc(size + 500));
  mi_free(p);
}

static void free_twice_elsewhere(size_t size) {
  void* volatile p = mi_malloc(size);
  pthread_t thread;
  if (pthread_create(&thread, NULL, free_it, p) != 0) abort();
  pthread_join(thread, NULL);
  mi_free(p);
}

static void free_inside(size_t size) {
  char* volatile p = (char*)mi_malloc(size);
  mi_free(p + 16);
  mi_free(p);
}

static void free_unaligned(size_t size) {
  char* volatile p = (char*)mi_malloc(size);
  mi_free(p + 3);
  mi_free(p);
}

static void free_foreign(size_t size) {
  static char data[64];
  (void)size;
  char* volatile p = data;
  mi_free(p + 16);
}

static void test_frees(void) {
  for (size_t i = 0; i < SIZES; i++) {
    const size_t size = sizes[i];
    run(free_twice, size);
    if (size < 70000) EXPECT_SAID("double free detected");
    else EXPECT(strstr(said, "double free") != NULL || strstr(said, "invalid pointer") != NULL);
    run(free_twice_elsewhere, size);
    EXPECT(strstr(said, "double free") != NULL || strstr(said, "invalid pointer") != NULL);
    if (size >= 100 && size < 70000) {
      run(free_inside, size);
      EXPECT_SAID("free: invalid pointer");
      EXPECT_SAID("inside a block of size");
      run(free_unaligned, size);
      EXPECT_SAID("invalid (unaligned) pointer");
    }
  }
  run(free_twice_later, 100);
  EXPECT_SAID("double free detected");
  run(free_foreign, 0);
  EXPECT_SAID("free: invalid pointer");
}

// ---- after free --------------------------------------------------------------------------------

// The block comes back within a few rounds.
static void write_after_free(size_t size) {
  unsigned char* volatile p = (unsigned char*)mi_malloc(size);
  mi_free(p);
  p[offset] ^= 0x5A;
  for (int round = 0; round < 200; round++) {
    void* kept[64];
    for (int i = 0; i < 64; i++) kept[i] = mi_malloc(size);
    for (int i = 0; i < 64; i++) mi_free(kept[i]);
  }
}

static void test_after_free(void) {
  offset = 0;  // the link
  run(write_after_free, 100);
  EXPECT_SAID("corrupted free list entry of size");
  offset = 40;
  run(write_after_free, 100);
  EXPECT_SAID("use after free of heap block");
  EXPECT_SAID("write at byte 40\n");
  offset = 99;
  run(write_after_free, 100);
  EXPECT_SAID("write at byte 99\n");
}

// ---- fills -------------------------------------------------------------------------------------

static void look_at_fills(size_t size) {
  volatile unsigned char* volatile p = (unsigned char*)mi_malloc(size);
  for (size_t i = 0; i < size; i++) {
    if (p[i] != 0xD0) fprintf(stderr, "fresh byte %zu is 0x%02X\n", i, p[i]);
  }
  const size_t whole = mi_good_size(size);
  for (size_t i = size; i < whole; i++) {
    if (p[i] != 0xDE) fprintf(stderr, "slack byte %zu is 0x%02X\n", i, p[i]);
  }
  mi_free((void*)(uintptr_t)p);
  for (size_t i = 8; i < size; i++) {
    if (p[i] != 0xDF) fprintf(stderr, "freed byte %zu is 0x%02X\n", i, p[i]);
  }
}

static void look_at_zeros(size_t size) {
  volatile unsigned char* volatile p = (unsigned char*)mi_calloc(1, size);
  for (size_t i = 0; i < size; i++) {
    if (p[i] != 0) fprintf(stderr, "byte %zu is 0x%02X\n", i, p[i]);
  }
  mi_free((void*)(uintptr_t)p);
}

static void test_fills(void) {
  for (size_t i = 0; i < SIZES && sizes[i] < 70000; i++) {
    run(look_at_fills, sizes[i]);
    EXPECT(said[0] == 0);
    run(look_at_zeros, sizes[i]);
    EXPECT(said[0] == 0);
  }
}

int main(void) {
  mi_option_set(mi_option_show_errors, 1);
  mi_option_set(mi_option_abort_on_error, 0);
  mi_option_set(mi_option_max_errors, -1);
  mi_free(mi_malloc(1));
  test_overflow();
  test_frees();
  test_after_free();
  test_fills();
  printf("%d failures\n", failures);
  return failures != 0;
}
