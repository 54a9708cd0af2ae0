// SPDX-License-Identifier: MIT
// Pages that the threads of a process with many of them have in common.
#ifndef MX_HEAP_COMMON_H
#define MX_HEAP_COMMON_H

#include "transfer.h"

// The same builds have none that have no transfer cache: they keep sizes apart.
#define MX_COMMON_PAGES MX_TRANSFERS

#define MX_COMMON_LINE 64  // blocks of common pages are multiples of it

MX_BEGIN_DECLS
// Whether the heap's sub-process has so many threads that some of them are likely to wait.
bool mx_common_is_due(const mx_heap_t* heap);
// A block of a common page for a theap that has no page of the bin, if the request is one of the
// first in a process with many threads; NULL: it is to have one of the theap's own.
void* mx_common_alloc(mx_theap_t* theap, size_t bin, bool zero);
// Whether threads are many, and more blocks of a bin are passed on than the transfer caches keep.
bool mx_common_is_passed(const mx_heap_t* heap, size_t bin);
// A block of such a bin for a theap that has none free; NULL: it is to have one of the theap's own.
void* mx_common_alloc_passed(mx_theap_t* theap, size_t bin, bool zero);
// What a theap took and freed counts half as much from now on.
void mx_common_age(mx_theap_t* theap);
// The theap's next block of the bin shall be of a page of its own. Whether it might not have been.
bool mx_common_forgo(mx_theap_t* theap, size_t bin);
// The thread of a first theap has begun, and ends.
void mx_common_begin(mx_theap_t* first);
void mx_common_end(mx_theap_t* first);
MX_END_DECLS

// The thread of a first theap, which may be NULL, freed a block of a page that no thread has.
mx_inline void mx_common_note_free(mx_theap_t* first, size_t bin) {
  if (!MX_COMMON_PAGES || bin < MX_LARGER_BIN || first == NULL) return;
  if (first->common.freed < UINT32_MAX) first->common.freed++;
}

#endif
