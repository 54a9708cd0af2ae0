// SPDX-License-Identifier: MIT
// The table of medium bins (see sizeclass.h). A run of n entries is written Rn(bin); the unit
// test of size classes compares every entry with mx_bin_of.
#include "sizeclass.h"

#define R1(b) (b),
#define R2(b) R1(b) R1(b)
#define R4(b) R2(b) R2(b)
#define R8(b) R4(b) R4(b)
#define R16(b) R8(b) R8(b)
#define R32(b) R16(b) R16(b)
// A doubling of 8 bins from b on, n entries to each.
#define DOUBLING(R, b) \
  R(b) R((b) + 1) R((b) + 2) R((b) + 3) R((b) + 4) R((b) + 5) R((b) + 6) R((b) + 7)

#define FIRST (MX_SMALL_BINS + 1)

const uint8_t mx_bin_table[MX_BIN_TABLE_MAX / 128] = {
    // Up to 1 KiB, where the table is not asked: the bin of each entry's largest size.
    8, 16, 24, 32, 40, 48, 56, 64,
    DOUBLING(R1, FIRST)         // to 2 KiB
    DOUBLING(R2, FIRST + 8)     // to 4 KiB
    DOUBLING(R4, FIRST + 16)    // to 8 KiB
    DOUBLING(R8, FIRST + 24)    // to 16 KiB
    DOUBLING(R16, FIRST + 32)   // to 32 KiB
    DOUBLING(R32, FIRST + 40)   // to 64 KiB
};
