// SPDX-License-Identifier: MIT
// Which mitigations a build has, by its level, as docs/hardening.md has them; that what a key tells
// differs by key and by number, and what of freed blocks is cleared.
#include <stdio.h>

#include "../../include/mimalloc.h"
#include "../../src/base/mitigations.h"
#include "../../src/mem/random.h"
#include "../../src/page/clear.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

// From a level on, and in debug builds or not.
#define HAS(name, level, in_debug) \
  EXPECT((name != 0) == (MX_SECURE >= (level) || (MX_DEBUG > 0 && (in_debug))))

static void test_levels(void) {
  HAS(MX_GUARD_METADATA, 1, false);
  HAS(MX_RANDOM_ADDRESS, 1, false);
  HAS(MX_RANDOM_ORDER, 2, false);
  HAS(MX_ENCODE_LINKS, 3, true);
  HAS(MX_QUARANTINE, 4, true);
  HAS(MX_ZERO_BLOCKS, 4, true);
  HAS(MX_GUARD_PAGES, 5, false);
  HAS(MX_DEBUG_FILL, 6, true);
  if (MX_PADDING) {
    HAS(MX_CHECK_END, 3, true);
    HAS(MX_CHECK_SIZED, 4, true);
  }
  if (MX_PIECEWISE) {
    HAS(MX_SCATTER, 4, false);
    HAS(MX_ISOLATE, 4, false);
    if (!MX_TRACK) HAS(MX_LARGE_APART, 4, false);
  }
  if (!MX_TRACK) EXPECT((MX_CLEAR_FREED != 0) == (MX_PADDING && MX_SECURE >= 4 && MX_DEBUG == 0));
  if (MX_IS_LINUX && !MX_TRACK) HAS(MX_READ_ONLY, 4, false);
  // Whether a block is live is known by canaries or by bits.
  EXPECT(!MX_CHECKED_FREE || MX_PADDING || MX_LIVE_BITS);
}

static void test_numbers(void) {
  size_t same = 0, ones[32] = {0};
  for (uint64_t key = 1; key <= 64; key++) {
    for (uint64_t n = 0; n < 64; n++) {
      const uint32_t told = mx_random_of(key << 20, n);
      EXPECT(told == mx_random_of(key << 20, n));
      same += (told == mx_random_of(key << 20, n + 1)) + (told == mx_random_of((key + 1) << 20, n));
      for (int bit = 0; bit < 32; bit++) ones[bit] += told >> bit & 1;
    }
  }
  EXPECT(same <= 2);
  for (int bit = 0; bit < 32; bit++) EXPECT(ones[bit] > 64 * 64 / 3 && ones[bit] < 64 * 64 * 2 / 3);
  uint64_t state = 7;
  const uint64_t first = mx_random_step(&state), second = mx_random_step(&state);
  EXPECT(first != 0 && first != second && state == second);
}

// What larger blocks hold is cleared as long as that does not take too much; their beginning always.
static void test_clearing(void) {
  static uint8_t block[4096];
  bool was_whole = true;
  for (int i = 0; was_whole && i < 10000000; i++) {
    block[0] = block[15] = block[16] = block[4095] = 1;
    was_whole = mx_clear_larger(block, sizeof(block));
    EXPECT(block[0] == 0 && block[15] == 0);
    EXPECT(block[16] == !was_whole && block[4095] == !was_whole);
  }
  EXPECT(!was_whole);
}

int main(void) {
  if (MX_OMIT_MITIGATIONS == 0) test_levels();
  test_numbers();
  mi_free(mi_malloc(1));  // what the system is like is known
  test_clearing();
  printf("mitigations: %d failures\n", failures);
  return failures != 0;
}
