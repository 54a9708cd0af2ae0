// SPDX-License-Identifier: MIT
// The declarations of the huge pages that are kept ready (see huge_cache.c).
#ifndef MX_HEAP_HUGE_CACHE_H
#define MX_HEAP_HUGE_CACHE_H

#include "heap.h"

MX_BEGIN_DECLS
// Keeps an unlinked huge page for the next request of its size; false when it is not to be kept.
bool mx_huge_cache_put(mx_page_t* page);
// A kept page of `count` slices or little more, aligned to `align` slices; or NULL.
mx_page_t* mx_huge_cache_take(const mx_heap_t* heap, size_t count, size_t align);
// Lets go of what is kept: in any case, or when the last one waited longer than memory may.
void mx_huge_cache_flush(bool force);
MX_END_DECLS

#endif
