// SPDX-License-Identifier: MIT
// Addresses of large blocks that a heap with addresses of its own has given up: a ring, of which
// the oldest one that fits serves again when enough wait behind it. What is too much for the ring,
// and all of a heap that is gone, nobody ever has again.
#include "own_ranges.h"

#include "../mem/vmem.h"

#define RANGES 256       // a power of two
#define RANGES_WAIT 64   // so many wait before the first one serves again

typedef struct mx_ranges_s {
  uint32_t first, end;  // count on; those between are in the ring, some of them taken
  mx_range_t items[RANGES];
} mx_ranges_t;

static mx_range_t take_old(mx_ranges_t* ranges, size_t size, size_t align) {
  mx_check(ranges->end - ranges->first <= RANGES);
  const mx_range_t none = {NULL, 0};
  for (uint32_t i = ranges->first; i != ranges->end - RANGES_WAIT; i++) {
    mx_range_t* const item = &ranges->items[i % RANGES];
    if (item->size < size || item->size / 2 > size || !mx_is_aligned(item->start, align)) continue;
    const mx_range_t found = *item;
    *item = none;
    return found;
  }
  return none;
}

mx_range_t mx_ranges_take(mx_heap_t* heap, size_t size, size_t align) {
  mx_range_t range = {NULL, 0};
  mx_lock_acquire(&heap->lock);
  mx_ranges_t* const ranges = heap->ranges;
  if (ranges != NULL && ranges->end - ranges->first > RANGES_WAIT) {
    range = take_old(ranges, size, align);
    while (ranges->first != ranges->end && ranges->items[ranges->first % RANGES].size == 0) {
      ranges->first++;
    }
  }
  mx_lock_release(&heap->lock);
  if (range.start != NULL) return range;
  range.start = (uint8_t*)mx_vmem_place(MX_ZONE_ONCE, size, align);
  range.size = size;
  return range;
}

// Whether a range is this heap's to keep. Under the heap's lock, as is the end of its partition.
static bool is_of(mx_heap_t* heap, uint64_t partition) {
  mx_check(mx_lock_is_mine(&heap->lock));
  return heap->partition.id == partition;
}

static bool put(mx_heap_t* heap, uint64_t partition, mx_range_t range) {
  mx_lock_acquire(&heap->lock);
  mx_ranges_t* const ranges = heap->ranges;
  const bool is_done = (ranges != NULL || !is_of(heap, partition));
  if (ranges != NULL && is_of(heap, partition)) {
    if (ranges->end - ranges->first == RANGES) ranges->first++;
    ranges->items[ranges->end++ % RANGES] = range;
  }
  mx_check(ranges == NULL || ranges->end - ranges->first <= RANGES);
  mx_lock_release(&heap->lock);
  return is_done;
}

void mx_ranges_put(mx_heap_t* heap, uint64_t partition, mx_range_t range) {
  if (put(heap, partition, range)) return;
  // It is kept with the heap's record for good.
  mx_ranges_t* const fresh = (mx_ranges_t*)mx_meta_alloc(sizeof(mx_ranges_t));
  mx_lock_acquire(&heap->lock);
  if (heap->ranges == NULL) heap->ranges = fresh;
  mx_lock_release(&heap->lock);
  if (fresh != NULL) put(heap, partition, range);
}

void mx_ranges_end(mx_heap_t* heap) {
  mx_lock_acquire(&heap->lock);
  heap->partition.id = 0;
  if (heap->ranges != NULL) heap->ranges->first = heap->ranges->end;
  mx_lock_release(&heap->lock);
}
