// SPDX-License-Identifier: MIT
// What the programs of this folder expect: what is not so is reported with its line, and counted.
#ifndef TEST_PROFILE_EXPECT_H
#define TEST_PROFILE_EXPECT_H

#include <stdio.h>

static int failures;

#define EXPECT(e)                                         \
  do {                                                    \
    if (!(e)) {                                           \
      failures++;                                         \
      printf("FAIL %s:%d: %s\n", __FILE__, __LINE__, #e); \
    }                                                     \
  } while (0)

#endif
