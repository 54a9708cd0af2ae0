// SPDX-License-Identifier: MIT
// Pages that the threads of a process with many of them have in common.
#ifndef MX_HEAP_COMMON_H
#define MX_HEAP_COMMON_H

#include "heap.h"

// Builds that check, encode or keep track of each block have none: they keep sizes apart.
#define MX_COMMON_PAGES \
  (MX_SECURE == 0 && MX_DEBUG == 0 && !MX_CHECKED_FREE && !MX_TRACK && !MX_PADDING)

// Whether the heap's sub-process has so many threads that some of them are likely to wait.
mx_inline bool mx_common_is_due(const mx_heap_t* heap) {
  const int64_t threads = mx_load_relaxed(&heap->subproc->main_heap.counters.threads.current);
  return MX_COMMON_PAGES && threads >= 16;
}

MX_BEGIN_DECLS
// Whether a request that is due gets a block of a common page, in place of the theap's first page
// of the bin. Counts it.
bool mx_common_serves(mx_theap_t* theap, size_t bin);
// A common page with a free block, which is large enough for the bin's; this code owns it. NULL:
// none is to be had. *is_zero as in mx_theap_refill.
mx_page_t* mx_common_take(mx_theap_t* theap, size_t bin, bool* is_zero);
// Gives it to nobody again.
void mx_common_leave(mx_page_t* page);
MX_END_DECLS

#endif
