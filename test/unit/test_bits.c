// SPDX-License-Identifier: MIT
// Tests base/bits: each of the 64 bits, also where the machine's words have 32.
#include <stdio.h>

#include "../../src/base/bits.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL bit %u: %s\n", i, #cond), failures++))

int main(void) {
  // Read from memory, so that the functions run rather than the compiler.
  static volatile uint64_t one = 1;
  for (unsigned i = 0; i < 64; i++) {
    const uint64_t bit = one << i;
    EXPECT(mx_bit_high(bit) == i);
    EXPECT(mx_bit_low(bit) == i);
    EXPECT(mx_bit_high(bit | (bit - one)) == i);
    EXPECT(mx_bit_low(~(bit - one)) == i);
    EXPECT(mx_popcount(bit - one) == i);
  }
  return failures != 0;
}
