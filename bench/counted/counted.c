// SPDX-License-Identifier: MIT
// The whole library as one file, with counted verbs (atomic_count.h) instead of src/base/atomic.h.
#define _GNU_SOURCE 1
#include "atomic_count.h"

#include "../../src/static.c"

bool mc_is_block(const void* p) {
  return mx_pagemap_table != NULL && mx_pagemap_find(p) != NULL;
}
