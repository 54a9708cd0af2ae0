// SPDX-License-Identifier: MIT
// What the fuzz targets share.
#ifndef MIMALLOC_TEST_FUZZ_H
#define MIMALLOC_TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// Ends the run with the place of what did not hold.
#define REQUIRE(e)                                                                \
  ((e) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #e), abort()))

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

#endif
