// SPDX-License-Identifier: MIT
// The order of fresh blocks, and what is said of a link that leads out of its page.
#include "freelist.h"

#include "../base/hooks.h"
#include "padding.h"

mx_block_t* mx_freelist_corrupted(const mx_page_t* page, const mx_block_t* block, uintptr_t link) {
  mx_error(14 /* EFAULT */, "corrupted free list entry of size %zub at %p: value 0x%zx\n",
           page->block_size, (const void*)block, (size_t)link);
  return NULL;
}

// The list may be another thread's, that writes it.
mx_unsynchronised bool mx_freelist_mark(const mx_page_t* page, const mx_block_t* list,
                                        uint64_t* seen, size_t* count) {
  for (const mx_block_t* block = list; block != NULL;) {
    if (!mx_page_is_block(page, block)) return false;
    const size_t i = (size_t)((const uint8_t*)block - page->start) / page->block_size;
    if (mx_has_bit(seen, i)) return false;
    mx_set_bit(seen, i);
    ++*count;
    mx_track_pause();
    uintptr_t link = block->next;
    mx_track_resume();
    if (MX_ENCODE_LINKS) link ^= (uintptr_t)mx_place_key(page, block);
    block = (const mx_block_t*)link;
  }
  return true;
}

// Distances between blocks that follow each other, in blocks: not 1 alone, so that the neighbour in
// memory is rarely the next one, and primes, so that most numbers of blocks have none as a factor.
#define STEPS 4
static const uint8_t steps[STEPS] = {1, 3, 5, 7};

// Blocks as large as this are far enough from each other: those further away cost the processor's
// prefetching.
#define STEP_MAX_SIZE 256

// Links a free block, and gives it its canary.
mx_inline void make_free(const mx_page_t* page, uint8_t* p, const void* next) {
  mx_block_t* const block = (mx_block_t*)(void*)p;
  mx_block_set_next(page, block, (const mx_block_t*)next);
  if (MX_PADDING) mx_pad_set(page, block, MX_PAD_FREE);
}

// From any block on, up or down in equal steps around the ring of them.
mx_block_t* mx_freelist_scatter(const mx_page_t* page, mx_block_t* start, size_t count,
                                size_t index) {
  mx_check(count > 0 && index + count <= page->reserved);
  const size_t size = page->block_size;
  const uint32_t random = mx_page_random(page, index);
  size_t step = (size > STEP_MAX_SIZE ? 1 : steps[random % STEPS]);
  if (step >= count || count % step == 0) step = 1;
  if ((random & STEPS) != 0) step = count - step;
  mx_check(step <= count);
  const size_t turn = (size_t)(((uint64_t)random * count) >> 32);
  uint8_t* const first = (uint8_t*)start;
  uint8_t* const end = first + count * size;
  const size_t forward = step * size, back = (count - step) * size;
  uint8_t* const split = end - forward;
  uint8_t* p = first;
  for (; p < split; p += size) make_free(page, p, p + forward);
  for (; p < end; p += size) make_free(page, p, p - back);
  // The ring opens in front of that block.
  const size_t before = (turn >= step ? turn - step : turn + count - step);
  mx_check(turn < count && before < count);
  mx_block_set_next(page, (mx_block_t*)(void*)(first + before * size), page->free);
  return (mx_block_t*)(void*)(first + turn * size);
}
