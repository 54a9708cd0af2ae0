// SPDX-License-Identifier: MIT
// What a live block keeps from being given back. Its page is borrowed as for making holes, so that
// nobody takes blocks from it meanwhile, and nothing is changed.
#include "holes.h"

// One OS page in which the block lies.
static void add_pins(const mx_view_t* view, uintptr_t at, mx_pins_t* pins) {
  mx_check(at % mx_facts.os_page == 0 && mx_page_is_lent(view->page));
  const mx_page_t* const page = view->page;
  const uintptr_t start = (uintptr_t)page->start, end = at + mx_facts.os_page;
  const size_t size = page->block_size;
  size_t live = 0, bytes = 0;
  for (size_t i = at > start ? (at - start) / size : 0; start + i * size < end; i++) {
    if (mx_view_is_free(view, i)) continue;
    const uintptr_t from = start + i * size;
    live++;
    bytes += mx_min(from + size, end) - mx_max(from, at);
  }
  if (live == 0 || bytes >= mx_facts.os_page) return;
  mx_check(bytes > 0);
  pins->shared += (double)(mx_facts.os_page - bytes) / (double)live;
  if (live == 1) pins->alone += mx_facts.os_page - bytes;
}

mx_pins_t mx_pins_of(mx_page_t* page, const void* block) {
  mx_check(!mx_page_is_huge(page) && mx_page_could_be_block(page, block));
  mx_pins_t pins = {0, 0};
  mx_view_t view;
  if (!mx_holes_borrow(page)) return pins;
  if (mx_holes_look(&view, page, false)) {
    const uintptr_t end = (uintptr_t)block + page->block_size;
    for (uintptr_t at = (uintptr_t)block / mx_facts.os_page * mx_facts.os_page; at < end;
         at += mx_facts.os_page) {
      add_pins(&view, at, &pins);
    }
  }
  mx_holes_give_back(page, mx_page_has_holes(page));  // it has a live block: nobody released it
  return pins;
}
