// SPDX-License-Identifier: MIT
// The look at a page that pins.h asks for. It borrows the page as who makes holes does (holes.h),
// so that nobody takes blocks from it meanwhile, and changes nothing.
#include "pins.h"

#include <string.h>

#include "../os/os.h"
#include "freelist.h"
#include "holes.h"

typedef struct pin_view_s {
  const mx_page_t* page;
  uint64_t free[MX_PAGE_BLOCKS_MAX / 64];  // by block: on the list
} pin_view_t;

static bool borrow_for_pins(mx_page_t* page) {
  uint8_t old = mx_load_relaxed(&page->lend);
  do {
    if ((old & (MX_PAGE_RESTS | MX_PAGE_LENT)) != MX_PAGE_RESTS) return false;
  } while (!mx_cas_weak_acq_rel(&page->lend, &old, (uint8_t)(old | MX_PAGE_LENT)));
  return true;
}

// It has a live block, so nobody released it meanwhile.
static void give_back_pinned(mx_page_t* page) {
  uint8_t old = mx_load_relaxed(&page->lend);
  mx_check((old & MX_PAGE_GONE) == 0);
  while (!mx_cas_weak_acq_rel(&page->lend, &old, (uint8_t)(old & ~MX_PAGE_LENT))) {}
}

// As holes.c looks: what the owner writes meanwhile is seen, and then the page counts as busy.
mx_unsynchronised static bool look_for_pins(pin_view_t* view, const mx_page_t* page) {
  memset(view, 0, sizeof(*view));
  view->page = page;
  size_t listed = 0;
  const uint32_t used = mx_peek_uint32(&page->used);
  mx_block_t* const first = mx_peek_pointer(mx_block_t, &page->free);
  if (!mx_os_barrier_all()) return false;
  const size_t holes = mx_holes_count(page);
  if (!mx_freelist_mark(page, first, view->free, &listed)) return false;
  if (mx_peek_pointer(mx_block_t, &page->free) != first) return false;
  return mx_peek_uint32(&page->used) == used && listed + holes + used == page->capacity;
}

static bool pins_live(const pin_view_t* view, size_t i) {
  return i < view->page->capacity && !mx_has_bit(view->free, i) && !mx_holes_contain(view->page, i);
}

// One OS page in which the block lies.
static void add_pins(const pin_view_t* view, uintptr_t at, mx_pins_t* pins) {
  const mx_page_t* const page = view->page;
  const uintptr_t start = (uintptr_t)page->start, end = at + mx_facts.os_page;
  const size_t size = page->block_size;
  size_t live = 0, bytes = 0;
  for (size_t i = at > start ? (at - start) / size : 0; start + i * size < end; i++) {
    if (!pins_live(view, i)) continue;
    const uintptr_t from = start + i * size;
    live++;
    bytes += mx_min(from + size, end) - mx_max(from, at);
  }
  if (live == 0 || bytes >= mx_facts.os_page) return;
  pins->shared += (double)(mx_facts.os_page - bytes) / (double)live;
  if (live == 1) pins->alone += mx_facts.os_page - bytes;
}

mx_pins_t mx_pins_of(mx_page_t* page, const void* block) {
  mx_pins_t pins = {0, 0};
  pin_view_t view;
  if (page->arena == NULL || page->reserved > MX_PAGE_BLOCKS_MAX || !borrow_for_pins(page)) {
    return pins;
  }
  if (look_for_pins(&view, page)) {
    const uintptr_t end = (uintptr_t)block + page->block_size;
    for (uintptr_t at = (uintptr_t)block / mx_facts.os_page * mx_facts.os_page; at < end;
         at += mx_facts.os_page) {
      add_pins(&view, at, &pins);
    }
  }
  give_back_pinned(page);
  return pins;
}
