// SPDX-License-Identifier: MIT
// In secure builds: what a freed block held is gone, what is written to it afterwards is found when it
// is used again or when all is verified, and calloc's memory reads as zero whatever was there before.
#include "../child.h"
#include "page/clear.h"
#include "expect.h"

#define ROUNDS 64

static void* hidden(void* p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}

typedef struct wrong_s {
  size_t size, at;
  bool verifies;  // instead of allocating again
} wrong_t;

static void write_freed(const void* argument) {
  const wrong_t* const wrong = (const wrong_t*)argument;
  void* blocks[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) blocks[i] = hidden(mi_malloc(wrong->size));
  unsigned char* const p = (unsigned char*)blocks[ROUNDS / 2];
  memset(p, 1, wrong->size);
  mi_free(p);
  for (size_t i = sizeof(mx_block_t); i < wrong->size; i++) {
    if (((unsigned char*)hidden(p))[i] == 1) fprintf(stderr, "kept byte %zu\n", i);
  }
  ((volatile unsigned char*)hidden(p))[wrong->at] = 1;
  if (wrong->verifies) mi_collect(true);
  // The second free of its page lets the block go, and the next ones take what is free.
  for (int i = 0; i < ROUNDS; i++) {
    if (i != ROUNDS / 2) mi_free(blocks[i]);
  }
  for (int i = 0; i < 4 * ROUNDS; i++) hidden(mi_malloc(wrong->size));
  fprintf(stderr, "went on\n");
  _exit(0);
}

static void test_writes(void) {
  static const wrong_t wrongs[] = {{24, 8, false}, {24, 23, false}, {20, 9, false}, {24, 16, true},
                                   {2000, 8, false}, {2000, 1999, false}, {4000, 2000, false},
                                   {4000, 3999, true}, {8000, 4001, true}};
  for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
    run_child(write_freed, &wrongs[i]);
    EXPECT_AT(i, strstr(said, "kept byte") == NULL);
    EXPECT_AT(i, strstr(said, "use after free of heap block") != NULL && WIFSIGNALED(status));
    char where[40];
    snprintf(where, sizeof(where), "write at byte %zu\n", wrongs[i].at);
    EXPECT_AT(i, strstr(said, where) != NULL);
  }
}

static void test_calloc(void) {
  static const size_t sizes[] = {1,    8,    9,    24,   25,   56,    200,   1016,
                                 1017, 1032, 1033, 4000, 9000, 20000, 300000};
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
    void* blocks[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) memset(blocks[i] = hidden(mi_malloc(sizes[s])), 1, sizes[s]);
    for (int i = 0; i < ROUNDS; i++) mi_free(blocks[i]);
    for (int i = 0; i < ROUNDS; i++) {
      const unsigned char* const p = (unsigned char*)hidden(blocks[i] = mi_calloc(1, sizes[s]));
      size_t n = 0;
      while (n < sizes[s] && p[n] == 0) n++;
      EXPECT_AT(sizes[s], n == sizes[s]);
    }
    for (int i = 0; i < ROUNDS; i++) mi_free(blocks[i]);
  }
}

// Far more than a thread may clear at once: what is left as it was is no false alarm.
static void test_beyond_share(void) {
  enum { BLOCKS = 1024, SIZE = 6000 };
  static void* blocks[BLOCKS];
  for (int round = 0; round < 8; round++) {
    for (int i = 0; i < BLOCKS; i++) memset(blocks[i] = hidden(mi_malloc(SIZE)), 1, SIZE);
    for (int i = 0; i < BLOCKS; i++) mi_free(blocks[i]);
  }
  mi_collect(true);
}

// Large blocks get memory of several that were freed, of which each has pieces of others: none of it
// tells what was there.
static void test_large_ones(void) {
  enum { SLOTS = 12, STEPS = 200 };
  unsigned char* slots[SLOTS] = {NULL};
  size_t sizes[SLOTS] = {0};
  uint32_t random = 1;
  for (int step = 0; step < STEPS; step++) {
    random = random * 1664525 + 1013904223;
    const size_t i = (random >> 8) % SLOTS, size = 200000 + (size_t)(random >> 10) % 4000000;
    if (slots[i] != NULL) EXPECT_AT(i, slots[i][0] == i + 1 && slots[i][sizes[i] - 1] == i + 1);
    mi_free(slots[i]);
    slots[i] = (unsigned char*)hidden(mi_malloc(size));
    size_t n = 0;
    while (n < size && slots[i][n] == 0) n++;
    EXPECT_AT(step, n == size);
    memset(slots[i], (int)i + 1, size);
    sizes[i] = size;
  }
  for (int i = 0; i < SLOTS; i++) mi_free(slots[i]);
}

int main(void) {
  if (MX_CLEAR_FREED) test_writes();  // first: the children inherit what may still be cleared
  if (MX_CLEAR_LARGE) test_large_ones();
  test_calloc();
  test_beyond_share();
  return expect_end("cleared");
}
