// SPDX-License-Identifier: MIT
// The walk over the pages of an arena, in the order of their addresses.
#include "page.h"

// A page may come and go meanwhile; then its extent is as good as none.
mx_unsynchronised mx_page_t* mx_page_next_in(const mx_arena_t* arena, size_t* index) {
  for (size_t i = *index; i < arena->slices;) {
    if (i % MX_WORD_BITS == 0 && mx_load_relaxed(&arena->free[i / MX_WORD_BITS]) == UINT64_MAX) {
      i += MX_WORD_BITS;
      continue;
    }
    if (!mx_bits_test(arena->free, i)) {
      mx_page_t* const page = mx_pagemap_get(arena->start + i * MX_SLICE_SIZE);
      if (page == mx_arena_record(arena, i)) {
        *index = i + mx_max(mx_peek_uint32(&page->slice_count), 1);
        return page;
      }
    }
    i++;
  }
  *index = arena->slices;
  return NULL;
}
