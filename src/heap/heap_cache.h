// SPDX-License-Identifier: MIT
// The pages that a destroyed heap keeps for the next one in its record.
#ifndef MX_HEAP_HEAP_CACHE_H
#define MX_HEAP_HEAP_CACHE_H

#include "heap.h"

MX_BEGIN_DECLS
// Keeps a page of a heap that is being destroyed; false when it must go.
bool mx_heap_cache_put(mx_heap_t* heap, mx_page_t* page);
// A kept page of a bin, with all of it free, in no list; or NULL.
mx_page_t* mx_heap_cache_take(mx_heap_t* heap, size_t bin);
MX_END_DECLS

#endif
