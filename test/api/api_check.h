// SPDX-License-Identifier: MIT
// What the programs of this folder share: a check that stays in release builds.
#ifndef MI_TEST_API_CHECK_H
#define MI_TEST_API_CHECK_H

#include <stdio.h>
#include <stdlib.h>

// Ends the program with status 1 where something is not as it must be.
#define CHECK(e)                                                                 \
  do {                                                                           \
    if (!(e)) {                                                                  \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #e);            \
      exit(1);                                                                   \
    }                                                                            \
  } while (0)

// The same in a loop over the rows of a table.
#define CHECK_ROW(e, row)                                                        \
  do {                                                                           \
    if (!(e)) {                                                                  \
      fprintf(stderr, "%s:%d: row %zu failed: %s\n", __FILE__, __LINE__, (size_t)(row), #e); \
      exit(1);                                                                   \
    }                                                                            \
  } while (0)

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

#endif
