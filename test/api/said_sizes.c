// SPDX-License-Identifier: MIT
// In builds with canaries: frees that say how large the block is, sizes that are asked for and
// resizing in place have short ways of their own, and find what is wrong on these, too; and what
// calloc clears ends where the block does.
#include "../child.h"
#include "base/mitigations.h"
#include "expect.h"

#define SMALL_END 1100

// Unknown to the compiler, which must not think that it knows what these calls do.
static void* hidden(void* p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}

static void test_right_sizes(void) {
  for (size_t size = 1; size < SMALL_END; size++) {
    char* const p = (char*)hidden(mi_malloc(size));
    char* const other = (char*)hidden(mi_malloc(size));
    memset(p, 1, size);
    EXPECT_AT(size, mi_usable_size(p) == size);
    mi_free_size(p, size);
    mi_free_size_aligned(other, size, 16);
  }
}

// A size whose bits beyond those that a canary has are others is another one.
static void say_wrong(const void* argument) {
  const size_t* const sizes = (const size_t*)argument;
  void* const p = hidden(mi_malloc(sizes[0]));
  mi_free_size(p, sizes[1]);
}

static void test_wrong_sizes(void) {
  static const size_t sizes[] = {1, 24, 100, 1000, 5000};
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
    for (unsigned bit = 0; bit < 8 * sizeof(size_t); bit++) {
      const size_t pair[] = {sizes[s], sizes[s] ^ (size_t)1 << bit};
      if (pair[1] == 0) continue;  // what realloc made 0 bytes has one
      run_child(say_wrong, pair);
      EXPECT_AT(pair[1], strstr(said, "has size") != NULL);
      EXPECT_AT(pair[1], MX_SECURE < 4 || WIFSIGNALED(status));
    }
  }
}

// A block is where it is: this one is no more aligned than blocks of its size.
static void say_wrong_alignment(const void* argument) {
  const size_t align = *(const size_t*)argument;
  char* p = (char*)hidden(mi_malloc(72));
  while ((uintptr_t)p % align == 0) p = (char*)hidden(mi_malloc(72));
  mi_free_size_aligned(p, 72, align);
}

static void test_wrong_alignments(void) {
  for (size_t align = 64; align <= 4096; align *= 4) {
    run_child(say_wrong_alignment, &align);
    EXPECT_AT(align, strstr(said, "align") != NULL);
    EXPECT_AT(align, MX_SECURE < 4 || WIFSIGNALED(status));
  }
}

enum { FREE_SIZE, USABLE, STAY, STAY_THEN_FREE, WAYS };

typedef struct crime_s {
  size_t size;
  int way;
} crime_t;

static void overflow(const void* argument) {
  const crime_t* const crime = (const crime_t*)argument;
  size_t size = crime->size;
  char* const p = (char*)hidden(mi_malloc(size));
  void* const other = hidden(mi_malloc(size));
  if (crime->way == STAY_THEN_FREE) {
    size -= 16;
    if (hidden(mi_realloc(p, size)) != p) abort();
  }
  p[size + (size < 1000 && crime->way == STAY_THEN_FREE ? 16 : 0)] ^= 1;
  if (crime->way == FREE_SIZE) mi_free_size(p, size);
  else if (crime->way == USABLE) fprintf(stderr, "%zu\n", mi_usable_size(p));
  else if (crime->way == STAY) hidden(mi_realloc(p, size - 1));
  else mi_free(p);
  mi_free(other);
}

static void test_overflows(void) {
  // A multiple of 16 less 8, so that the canary is next.
  static const size_t sizes[] = {40, 120, 1000, 4000};
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
    for (int way = 0; way < WAYS; way++) {
      if (way == STAY_THEN_FREE && MX_DEBUG > 0) continue;  // no block stays there
      const crime_t crime = {sizes[s], way};
      run_child(overflow, &crime);
      // Where the block moves, the next one may be what it moves to, and tell of it first.
      const bool is_told = strstr(said, "buffer overflow") != NULL ||
                           (way == STAY && strstr(said, "past the end of the block in front") != NULL);
      EXPECT_AT(sizes[s] * 10 + (size_t)way, is_told);
    }
  }
}

static void test_calloc(void) {
  for (size_t size = 1; size < SMALL_END; size++) {
    char* blocks[3];
    for (int round = 0; round < 2; round++) {
      for (int i = 0; i < 3; i++) {
        blocks[i] = (char*)hidden(mi_calloc(1, size));
        for (size_t at = 0; at < size; at++) EXPECT_AT(size, blocks[i][at] == 0);
        memset(blocks[i], 0xA5, size);
      }
      for (int i = 0; i < 3; i++) mi_free(blocks[i]);  // verifies what lies around each
    }
  }
}

int main(void) {
  if (!MX_CHECK_SIZED) {
    printf("no sizes are compared in this build\n");
    return 77;
  }
  test_right_sizes();
  test_wrong_sizes();
  test_wrong_alignments();
  test_overflows();
  test_calloc();
  return expect_end("said-sizes");
}
