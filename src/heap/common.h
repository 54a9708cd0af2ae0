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
// A block of a common page, if the request is one of the first of its bin in a process with many
// threads; NULL: it is to have a block of the theap's own.
void* mx_common_alloc(mx_theap_t* theap, size_t bin, bool zero);
MX_END_DECLS

#endif
