// SPDX-License-Identifier: MIT
// In builds with a quarantine: the block that was freed last is not the next one of its size; in the
// full build, when it comes back differs from time to time. A second free of a block is found although others
// were allocated and freed in between.
#include "../child.h"
#include "page/delay.h"
#include "expect.h"

#define ROUNDS 2000
#define OTHERS 50

// Unknown to the compiler, which must not think that it knows what these calls do.
static void* hidden(void* p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}

static const size_t sizes[] = {1, 8, 24, 64, 200, 1000, 4000, 20000, 200000, 500000};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void test_last_waits(void) {
  for (size_t s = 0; s < SIZES; s++) {
    for (int i = 0; i < ROUNDS; i++) {
      void* const p = hidden(mi_malloc(sizes[s]));
      mi_free(p);
      void* const q = hidden(mi_malloc(sizes[s]));
      EXPECT_AT(sizes[s], q != p);
      mi_free(q);
    }
  }
}

// How many allocations it takes for a freed block to come back, when each is freed again.
static int count_until_back(size_t size) {
  void* const p = hidden(mi_malloc(size));
  mi_free(p);
  for (int n = 1;; n++) {
    void* const q = hidden(mi_malloc(size));
    mi_free(q);
    if (q == p || n == 1000) return n;
  }
}

static void test_unpredictable(void) {
  static const size_t small[] = {8, 24, 100};
  for (size_t s = 0; s < 3; s++) {
    int counts[9] = {0};
    for (int i = 0; i < ROUNDS; i++) {
      const int n = count_until_back(small[s]);
      counts[n < 8 ? n : 8]++;
    }
    int most = 0;
    printf("%4zu bytes, back after n allocations:", small[s]);
    for (int n = 1; n <= 8; n++) {
      printf(" %d: %.1f%%", n, counts[n] * 100.0 / ROUNDS);
      if (counts[n] > most) most = counts[n];
    }
    printf("\n");
    EXPECT_AT(small[s], counts[1] == 0 && (most < ROUNDS / 2 || MX_WAIT_PLACES == 1));
  }
}

static void free_twice(const void* argument) {
  const size_t size = *(const size_t*)argument;
  void* others[OTHERS];
  void* const p = hidden(mi_malloc(size));
  mi_free(p);
  for (int i = 0; i < OTHERS; i++) others[i] = hidden(mi_malloc(size));
  for (int i = 0; i < OTHERS; i++) mi_free(others[i]);
  mi_free(hidden(p));
  fprintf(stderr, "went on\n");
  _exit(0);
}

int main(void) {
  if (!MX_QUARANTINE) {
    printf("no quarantine in this build\n");
    return 77;
  }
  test_last_waits();
  test_unpredictable();
  for (size_t s = 0; s < SIZES; s++) {
    run_child(free_twice, &sizes[s]);
    const bool told =
        (strstr(said, "double free") != NULL || strstr(said, "invalid pointer") != NULL);
    EXPECT_AT(sizes[s], told && (MX_SECURE < 4 || WIFSIGNALED(status)));
  }
  return expect_end("quarantine");
}
