// SPDX-License-Identifier: MIT
// The growth of pages where slices are mapped in part.
#include "../page/blocks.h"
#include "adopt.h"

bool mx_page_extend_scarce(mx_heap_t* heap, mx_page_t* page, bool* is_zero) {
  if (!mx_page_can_extend(page)) return false;
  mx_arenas_unmap_free(&heap->subproc->arenas);
  mx_heap_grow_page(heap, page);
  const bool done = mx_page_extend(page, is_zero);
  if (!done) page->is_final = 1;
  return done;
}
