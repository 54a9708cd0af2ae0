// SPDX-License-Identifier: MIT
// The making of holes in a page and the filling of them; see holes.h for when that is allowed.
#include "holes.h"

#include <string.h>

#include "../base/facts.h"
#include "../base/lock.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../os/thread.h"
#include "remote.h"

// Holes are filled in pieces of this size, as blocks are carved.
#define REFILL_MAX (8 * MX_KIB)

// OS pages that a page must have to be worth a look.
#define PROMISE_MIN 4

// Bytes within a block that others freed that are worth a call of the OS, and what says that they
// were given back: behind its link, as long as the block is not used.
#define INSIDE_LEAST (16 * MX_KIB)
#define INSIDE_GONE ((uintptr_t)0x9F1D6B35)

// ---- borrowing ---------------------------------------------------------------------------------

// Each side writes its own word before it reads the other's, so one of them sees the other.
static mx_atomic(int) forbidden;
static mx_at_start mx_lock_t making;

void mx_holes_forbid(void) {
  mx_call_enter();
  mx_add_acq_rel(&forbidden, 1);
  mx_fence_seq_cst();
  mx_lock_acquire(&making);
  mx_lock_release(&making);
}

void mx_holes_allow(void) {
  mx_check(mx_load_relaxed(&forbidden) > 0);
  mx_add_acq_rel(&forbidden, -1);
  mx_call_leave();
}

bool mx_holes_visit_locks(mx_lock_visit_fn* visit) { return visit(&making); }

void mx_holes_after_fork(void) { mx_store_relaxed(&forbidden, 0); }

bool mx_lending_begin(void) {
  if (!mx_lock_try(&making)) return false;
  mx_fence_seq_cst();
  if (mx_load_acquire(&forbidden) == 0) return true;
  mx_holes_end();
  return false;
}

void mx_holes_end(void) { mx_lock_release(&making); }

bool mx_holes_borrow(mx_page_t* page) {
  mx_check(mx_lock_is_mine(&making));
  uint8_t old = mx_load_relaxed(&page->lend);
  do {
    if ((old & (MX_PAGE_RESTS | MX_PAGE_LENT)) != MX_PAGE_RESTS) return false;
  } while (!mx_cas_weak_acq_rel(&page->lend, &old, (uint8_t)(old | MX_PAGE_LENT)));
  return true;
}

bool mx_holes_give_back(mx_page_t* page, bool has_holes) {
  uint8_t old = mx_load_relaxed(&page->lend);
  for (;;) {
    mx_check((old & MX_PAGE_LENT) != 0);
    const bool gone = ((old & MX_PAGE_GONE) != 0);
    const uint8_t now = (uint8_t)(gone ? 0 : MX_PAGE_RESTS | (has_holes ? MX_PAGE_HOLES : 0));
    if (mx_cas_weak_acq_rel(&page->lend, &old, now)) return gone;
  }
}

// ---- looking -----------------------------------------------------------------------------------

// The block that the byte at p belongs to; in front of all of them it is the first.
static size_t index_of(const mx_page_t* page, const uint8_t* p) {
  return p <= page->start ? 0 : (size_t)(p - page->start) / page->block_size;
}

// The OS page in which a block begins, and that in which a page's first one does.
static uint8_t* os_page_at(const uint8_t* block) {
  return (uint8_t*)mx_align_down((uintptr_t)block, mx_facts.os_page);
}
static uint8_t* first_os_page(const mx_page_t* page) { return os_page_at(page->start); }

bool mx_holes_contain(const mx_page_t* page, size_t block_index) {
  const uint8_t* const block = page->start + block_index * page->block_size;
  return !mx_arena_is_present(page->arena, block, page->block_size);
}

size_t mx_holes_mark(const mx_page_t* page, uint64_t* marks) {
  if (page->capacity == 0) return 0;
  if (mx_arena_is_present(page->arena, page->start, page->capacity * page->block_size)) return 0;
  size_t count = 0;
  for (uint32_t i = 0; i < page->capacity; i++) {
    if (!mx_holes_contain(page, i)) continue;
    if (marks != NULL) mx_set_bit(marks, i);
    count++;
  }
  return count;
}

// The owner writes these without a thought of us, in this order when it frees: the block's link,
// then `free`, then `used`.
mx_unsynchronised static mx_block_t* free_of(const mx_page_t* page) {
  return mx_peek_pointer(mx_block_t, &page->free);
}
mx_unsynchronised static uint32_t used_of(const mx_page_t* page) {
  return mx_peek_uint32(&page->used);
}

mx_unsynchronised bool mx_holes_look(mx_view_t* view, mx_page_t* page, bool is_owner) {
  mx_check(mx_page_is_lent(page) && page->reserved <= MX_PAGE_BLOCKS_MAX);
  memset(view, 0, sizeof(*view));
  view->page = page;
  const uint32_t used = used_of(page);
  view->first = free_of(page);
  view->kept = (is_owner ? NULL : view->first);
  // The owner's writes of links must be here before the links are followed.
  if (!is_owner && !mx_os_barrier_all()) return false;
  size_t count = used;
  if (!mx_freelist_mark(page, view->first, view->free, &count)) return false;
  count += mx_holes_mark(page, view->free);
  if (free_of(page) != view->first || used_of(page) != used) return false;
  return count == page->capacity;
}

bool mx_view_is_free(const mx_view_t* view, size_t i) {
  return i >= view->page->capacity || mx_has_bit(view->free, i);
}

// Whether a block is live, or the one that must stay.
static bool is_needed(const mx_view_t* view, size_t i) {
  const mx_page_t* const page = view->page;
  return !mx_view_is_free(view, i) ||
         page->start + i * page->block_size == (const uint8_t*)view->kept;
}

// ---- making ------------------------------------------------------------------------------------

// What is not present already is skipped: runs begin and end with OS pages that are.
static size_t discard_present(mx_arena_t* arena, uint8_t* from, const uint8_t* to) {
  if (from >= to) return 0;
  size_t bytes = 0, bit = mx_arena_bit_of(arena, from);
  uint8_t *run = NULL, *p = from;
  for (;; p += mx_facts.os_page, bit++) {
    const bool goes = (p < to && mx_bits_test(arena->present, bit));
    if (goes && run == NULL) run = p;
    if (!goes && run != NULL) {
      bytes += mx_arena_discard(arena, run, (size_t)(p - run));
      run = NULL;
    }
    if (p >= to) return bytes;
  }
}

// The OS pages between blocks that are needed, and behind the last of them.
static size_t discard_needless(const mx_view_t* view) {
  mx_check(mx_page_is_lent(view->page));
  const mx_page_t* const page = view->page;
  uint8_t* from = first_os_page(page);
  size_t bytes = 0;
  for (size_t i = 0; i < page->capacity; i++) {
    if (!is_needed(view, i)) continue;
    uint8_t* const block = page->start + i * page->block_size;
    bytes += discard_present(page->arena, from, os_page_at(block));
    from = (uint8_t*)mx_align_up((uintptr_t)block + page->block_size, mx_facts.os_page);
  }
  return bytes + discard_present(page->arena, from, mx_page_end(page));
}

// Links the blocks anew, behind the one that must stay: those that are still there, by address.
mx_unsynchronised static void link_again(const mx_view_t* view) {
  mx_check(mx_page_is_lent(view->page));
  mx_page_t* const page = view->page;
  mx_block_t* last = view->kept;
  if (view->first == NULL) return;
  if (last == NULL) page->free = NULL;
  for (uint32_t i = 0; i < page->capacity; i++) {
    uint8_t* const p = page->start + i * page->block_size;
    if (!mx_view_is_free(view, i) || p == (uint8_t*)view->kept) continue;
    if (!mx_arena_is_present(page->arena, p, page->block_size)) continue;
    if (last != NULL) mx_block_set_next(page, last, (mx_block_t*)(void*)p);
    else page->free = (mx_block_t*)(void*)p;
    last = (mx_block_t*)(void*)p;
  }
  if (last != NULL) mx_block_set_next(page, last, NULL);
}

// Nobody has a block of an empty page, so nobody frees into it: it can start anew.
mx_unsynchronised static size_t discard_all(mx_page_t* page) {
  mx_check(mx_page_is_lent(page) && used_of(page) == 0);
  page->free = NULL;
  page->capacity = 0;
  mx_view_t view;
  memset(&view, 0, sizeof(view));
  view.page = page;
  return discard_needless(&view);
}

// What lies between the first and the last OS page of a block that others freed, up to which its
// owner has not come yet. The block stays where it is, and counts as present: its next user fills
// it again. Nobody gets it before the page is given back, though the owner may take the list.
mx_unsynchronised static size_t discard_inside(const mx_page_t* page, mx_block_t* block) {
  uintptr_t* const note = (uintptr_t*)(void*)block + 1;
  const uintptr_t gone = (uintptr_t)block ^ INSIDE_GONE;
  uint8_t* const from = (uint8_t*)mx_align_up((uintptr_t)(note + 1), mx_facts.os_page);
  uint8_t* const to = os_page_at((uint8_t*)(void*)block + page->block_size);
  if (*note == gone || from >= to || !mx_vmem_discard(from, (size_t)(to - from))) return 0;
  *note = gone;
  return (size_t)(to - from);
}

mx_unsynchronised static size_t discard_remote(const mx_page_t* page) {
  mx_check(mx_page_is_lent(page));
  if (page->block_size < INSIDE_LEAST + 2 * mx_facts.os_page) return 0;
  size_t bytes = 0;
  const mx_remote_list_t list = mx_remote_list_of(mx_load_acquire(&page->remote));
  mx_block_t* block = list.first;
  // The owner may take the list meanwhile, and link it to its own free blocks. Of those the links
  // need not be here yet, so that so many are looked at as the list had. Where words have no room
  // for the count it is 0, and nothing is done.
  for (uint32_t i = 0; i < list.count && block != NULL; i++) {
    if (!mx_page_could_be_block(page, block)) break;
    mx_block_t* const next = (mx_block_t*)mx_peek_word(&block->next);
    bytes += discard_inside(page, block);
    block = next;
  }
  return bytes;
}

// Most pages of a full heap, which need no barrier of all threads and no look at each OS page.
mx_unsynchronised static bool is_all_in_use(const mx_page_t* page) {
  if (free_of(page) != NULL || used_of(page) != page->capacity) return false;
  uint8_t* const carved = page->start + page->capacity * page->block_size;
  uint8_t* const behind = (uint8_t*)mx_align_up((uintptr_t)carved, mx_facts.os_page);
  uint8_t* const end = mx_page_end(page);
  return behind >= end || mx_bits_count(page->arena->present, mx_arena_bit_of(page->arena, behind),
                                        (size_t)(end - behind) / mx_facts.os_page) == 0;
}

mx_unsynchronised static size_t make_in_lent(mx_page_t* page, bool is_owner, bool* has_holes) {
  mx_check(mx_page_is_lent(page));
  if (used_of(page) == 0) {
    // The owner's last write to the list must be over before it is written here.
    if (!mx_os_barrier_all()) return 0;
    *has_holes = false;
    return discard_all(page);
  }
  const size_t inside = discard_remote(page);
  if (is_all_in_use(page)) return inside;
  mx_view_t view;
  if (!mx_holes_look(&view, page, is_owner)) return inside;
  const size_t bytes = discard_needless(&view);
  if (bytes == 0) return inside;
  link_again(&view);
  *has_holes = (mx_holes_count(page) > 0);
  return bytes + inside;
}

mx_unsynchronised size_t mx_holes_present(const mx_page_t* page) {
  const size_t count = mx_max(mx_peek_uint32(&page->slice_count), 1);
  return mx_arena_present_in(page->arena, page->slice_index, count);
}

mx_unsynchronised bool mx_holes_promise(const mx_page_t* page) {
  const uint32_t used = used_of(page);
  if (!MX_HOLES || used == 0 || mx_peek_uint32(&page->capacity) < used) return false;
  const size_t present = mx_holes_present(page);
  const size_t pinned = used * (page->block_size / mx_facts.os_page + 1);
  return present >= PROMISE_MIN && pinned <= present / 4;
}

mx_holes_t mx_holes_make(mx_page_t* page, bool is_owner) {
  mx_check(!mx_page_is_huge(page));
  mx_holes_t result = {0, false};
  if (!mx_holes_borrow(page)) return result;
  const mx_arena_t* const arena = page->arena;
  bool has_holes = mx_page_has_holes(page);
  if (mx_arena_is_discardable(arena)) {
    result.bytes = make_in_lent(page, is_owner, &has_holes);
    mx_counter_add(&mx_process_counters.holes_purged, (int64_t)result.bytes);
  }
  result.is_gone = mx_holes_give_back(page, has_holes);
  return result;
}

mx_unsynchronised uint32_t mx_holes_signature(const mx_page_t* page) {
  const uintptr_t list = (uintptr_t)free_of(page) >> 4;
  const uint32_t carved = mx_peek_uint32(&page->capacity);
  const uint32_t mixed = (uint32_t)list * 2654435761u ^ used_of(page) << 16 ^ carved ^
                         (uint32_t)(mx_load_relaxed(&page->remote) >> 4) * 2246822519u;
  return mixed == 0 ? 1 : mixed;
}

// ---- filling -----------------------------------------------------------------------------------

static mx_atomic(size_t) filled;

size_t mx_holes_take_filled(void) { return mx_exchange_relaxed(&filled, (size_t)0); }

// The first OS page of a range that is not present (or is, as asked); `end` when there is none.
static uint8_t* find_os_page(const mx_page_t* page, uint8_t* p, const uint8_t* end, bool present) {
  const size_t unit = mx_facts.os_page;
  while (p < end && mx_arena_is_present(page->arena, p, unit) != present) p += unit;
  return p;
}

bool mx_holes_carve(mx_page_t* page) {
  mx_check(mx_page_has_holes(page) && !mx_page_is_lent(page));
  const size_t size = page->block_size;
  uint8_t* const end = page->start + page->capacity * size;
  uint8_t* at = first_os_page(page);
  bool found = false;
  while (!found) {
    uint8_t* const from = find_os_page(page, at, end, false);
    if (from >= end) {
      mx_store_relaxed(&page->lend, (uint8_t)0);
      return false;
    }
    // All blocks that overlap this run were in the hole.
    size_t i = index_of(page, from);
    uint8_t* const block_end = page->start + (i + 1) * size;
    const size_t most = mx_max(REFILL_MAX, (size_t)(block_end - from));
    uint8_t* const to = find_os_page(page, from, from + mx_min(most, (size_t)(end - from)), true);
    if (!mx_arena_reach(page->arena, from, (size_t)(to - from))) {
      mx_store_relaxed(&page->lend, (uint8_t)0);  // until others are made
      return false;
    }
    mx_arena_touch(page->arena, from, (size_t)(to - from));
    mx_add_relaxed(&filled, (size_t)(to - from));
    for (; i < page->capacity && page->start + i * size < to; i++) {
      mx_block_t* const block = (mx_block_t*)(void*)(page->start + i * size);
      if (!mx_arena_is_present(page->arena, (uint8_t*)block, size)) continue;
      mx_block_set_next(page, block, page->free);
      page->free = block;
      found = true;
    }
    mx_check(to > from && to <= mx_page_end(page));
    at = to;
  }
  mx_check(page->free != NULL);
  return true;
}
