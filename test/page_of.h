// SPDX-License-Identifier: MIT
// The page of a block. What users are given may have a memory tag, which the map of pages does not know.
#ifndef PAGE_OF_H
#define PAGE_OF_H

#if defined(__linux__) && defined(__aarch64__)
#include <sys/prctl.h>
#endif

#include "../src/mem/pagemap.h"
#include "../src/os/tags.h"

mx_inline mx_page_t* page_of(const void* p) { return mx_pagemap_get(mx_tag_strip(p)); }

// For tests that damage memory to see it reported: with memory tags the write would end them. The
// thread's accesses are not compared any more; what the library compares itself still is.
mx_inline void allow_damage(void) {
#if defined(__linux__) && defined(__aarch64__)
  const long addresses = 1, choices = 0xFFFEL << 3;
  if (mx_has_tags()) prctl(55 /* PR_SET_TAGGED_ADDR_CTRL */, addresses | choices, 0L, 0L, 0L);
#endif
}

#endif
