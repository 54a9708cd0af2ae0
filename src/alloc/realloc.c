// SPDX-License-Identifier: MIT
// Owns reallocation and aligned allocation.
//
// No block is ever over-allocated for alignment up to 64 KiB: pages begin on slice boundaries, so a
// block size that is a multiple of the alignment makes every block aligned (see sizeclass.h).
#include <string.h>

#include "../base/hooks.h"
#include "../mem/vmem.h"
#include "alloc.h"
#include "fast.h"

#define EINVAL_ 22

void* mx_alloc_aligned(mx_theap_t* theap, size_t size, size_t align, size_t offset, bool zero) {
  if (offset % align != 0) return NULL;
  if (size > MX_MAX_ALLOC - align) return mx_alloc_slow(SIZE_MAX, theap, zero);
  if (align <= MX_ALIGN) return zero ? mx_zalloc_in(theap, size) : mx_alloc_in(theap, size);
  const size_t padded = mx_align_up(mx_max(size, 1) + MX_PAD, align);
  void* p;
  if (align > MX_SLICE_SIZE || padded > MX_BIN_MAX_SIZE || (MX_ZERO_BLOCKS && size == 0)) {
    if (theap->heap == NULL) theap = mx_thread_theap();
    if (theap == NULL) return NULL;
    if (MX_ZERO_BLOCKS && size == 0) return mx_zeroblock_alloc(theap, align);
    p = mx_huge_alloc(theap->heap, size, align, zero);
    if (MX_HARDEN) mx_harden_alloc_huge(p, size);
    return p;
  }
  p = (zero ? mx_zalloc_in(theap, padded - MX_PAD) : mx_alloc_in(theap, padded - MX_PAD));
  if (MX_HARDEN) mx_harden_shrink(p, size);
  return p;
}

static void* move_block(mx_theap_t* theap, void* p, size_t old_usable, size_t size, size_t align,
                        size_t offset, bool zero) {
  void* fresh = (align > MX_ALIGN ? mx_alloc_aligned(theap, size, align, offset, false)
                                  : mx_alloc_in(theap, size));
  if (fresh == NULL) return NULL;
  const size_t keep = mx_min(old_usable, size);
  memcpy(fresh, p, keep);
  if (zero) {
    const size_t usable = mx_usable_size(fresh);
    if (usable > keep) memset((uint8_t*)fresh + keep, 0, usable - keep);
  }
  mx_free(p);
  return fresh;
}

void* mx_realloc_in(mx_theap_t* theap, void* p, size_t size, size_t align, size_t offset,
                    bool zero) {
  if (p == NULL) {
    if (align > MX_ALIGN) return mx_alloc_aligned(theap, size, align, offset, zero);
    return zero ? mx_zalloc_in(theap, size) : mx_alloc_in(theap, size);
  }
  const size_t usable = mx_usable_size(p);
  if (mx_unlikely(usable == 0) && !mx_page_is_zeroblock(mx_pagemap_get(p))) {
    mx_error(EINVAL_, "realloc: invalid pointer %p\n", p);
    return NULL;
  }
  const bool aligned = (align <= MX_ALIGN || mx_is_aligned((uint8_t*)p + offset, align));
  mx_page_t* const page = mx_pagemap_get(p);
  const bool same_heap = (theap->heap == mx_page_heap(page) || theap->heap == NULL);
  if (aligned && same_heap) {
    if (size <= usable && size >= usable / 2 && size > 0 && !MX_PADDING) return p;
    if (mx_page_is_huge(page)) {
      void* q = mx_huge_realloc(page, size, zero);
      if (q != NULL) return q;
    }
  }
  return move_block(theap, p, usable, size, align, offset, zero);
}
