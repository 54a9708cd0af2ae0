// SPDX-License-Identifier: MIT
// Addresses of large blocks that a heap with addresses of its own has given up.
#ifndef MX_HEAP_OWN_RANGES_H
#define MX_HEAP_OWN_RANGES_H

#include "heap.h"

// A range of addresses that only one heap ever has, or none.
typedef struct mx_range_s {
  uint8_t* start;
  size_t size;
} mx_range_t;

MX_BEGIN_DECLS
// One of at least so many bytes, which is a multiple of slices: given up before, or new.
mx_range_t mx_ranges_take(mx_heap_t* heap, size_t size, size_t align);
// Nothing is mapped there any more. It waits, if it is that partition's heap.
void mx_ranges_put(mx_heap_t* heap, uint64_t partition, mx_range_t range);
// The heap is gone, and its partition: what it has given up is nobody's for ever.
void mx_ranges_end(mx_heap_t* heap);
MX_END_DECLS

#endif
