// SPDX-License-Identifier: MIT
// Owns a page's blocks: carving them, and collecting what other threads freed.
#include "page.h"

#include "../base/facts.h"
#include "../base/hooks.h"
#include "../mem/vmem.h"
#include "remote.h"

// Blocks are carved at least an OS page's worth at a time, and as many as the page already has, up
// to this: what was never carved was never touched.
#define CARVE_MAX (8 * MX_KIB)

mx_page_t mx_page_none;

void mx_page_init(mx_page_t* page, const mx_slices_t* slices, size_t block_size, size_t bin,
                  struct mx_heap_s* heap) {
  const size_t size = slices->count * MX_SLICE_SIZE;
  page->free = NULL;
  page->used = 0;
  page->capacity = 0;
  page->reserved = (uint32_t)(bin == MX_BIN_HUGE ? 1 : size / block_size);
  page->bin = (uint8_t)bin;
  page->is_listed = 0;
  page->is_zero = slices->is_zero;
  page->retired = 0;
  page->start = slices->start;
  page->block_size = block_size;
  page->theap = NULL;
  page->next = page->prev = NULL;
  mx_store_relaxed(&page->heap, heap);
  page->arena = slices->arena;
  page->slice_index = (uint32_t)slices->index;
  page->slice_count = (uint32_t)slices->count;
  page->heap_next = page->heap_prev = NULL;
  mx_store_relaxed(&page->owner, (uintptr_t)0);
  mx_store_release(&page->remote, MX_OWNED);
}

static uint32_t carve_count(const mx_page_t* page) {
  const size_t size = page->block_size;
  size_t count = page->capacity;  // doubles
  if (count * size > CARVE_MAX) count = CARVE_MAX / size;
  if (count * size < mx_facts.os_page) count = mx_facts.os_page / size;
  if (count == 0) count = 1;
  return (uint32_t)mx_min(count, page->reserved - page->capacity);
}

bool mx_page_extend(mx_page_t* page, bool* is_zero) {
  if (page->capacity >= page->reserved) return false;
  const uint32_t count = carve_count(page);
  const size_t size = page->block_size;
  uint8_t* const first = page->start + page->capacity * size;
  uint8_t* const last = first + (count - 1) * size;
  page->capacity += count;  // first, so that links into the new blocks are valid
  for (uint8_t* p = first; p < last; p += size) {
    mx_block_set_next(page, (mx_block_t*)(void*)p, (mx_block_t*)(void*)(p + size));
  }
  mx_block_set_next(page, (mx_block_t*)(void*)last, page->free);
  *is_zero = (page->is_zero && page->free == NULL);
  page->free = (mx_block_t*)(void*)first;
  mx_counter_add(&mx_process_counters.pages_extended, 1);
  return true;
}

size_t mx_page_put_back(mx_page_t* page, mx_block_t* list) {
  // The list can hold no more blocks than the page has: a longer one is a cycle.
  mx_block_t* last = list;
  size_t count = 1;
  for (mx_block_t* next; (next = mx_block_next(page, last)) != NULL; last = next) {
    if (++count > page->capacity) {
      mx_error(14 /* EFAULT */, "corrupted free list in the page at %p (block size %zu)\n",
               (void*)page->start, page->block_size);
      return 0;
    }
  }
  mx_block_set_next(page, last, page->free);
  page->free = list;
  page->used -= (uint32_t)count;
  return count;
}

bool mx_page_collect(mx_page_t* page) {
  mx_block_t* list = mx_remote_take(page);
  if (list == NULL) return false;
  mx_page_put_back(page, list);
  return true;
}

mx_block_t* mx_freelist_corrupted(const mx_page_t* page, const mx_block_t* block, uintptr_t link) {
  mx_error(14 /* EFAULT */, "corrupted free list entry of size %zub at %p: value 0x%zx\n",
           page->block_size, (const void*)block, (size_t)link);
  return NULL;
}

bool mx_page_is_valid(const mx_page_t* page) {
  if (page->capacity > page->reserved || page->used > page->capacity + 1) return false;
  size_t count = 0;
  for (const mx_block_t* b = page->free; b != NULL; b = mx_block_next(page, b)) {
    if (!mx_page_is_block(page, b) || ++count > page->capacity) return false;
  }
  return count + page->used <= page->capacity + 1;
}
