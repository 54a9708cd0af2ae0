// SPDX-License-Identifier: MIT
// Holes: OS pages inside a page of blocks that hold only free blocks and were given back.
//
// The blocks of a hole leave the free list; which they are is not written down anywhere else than
// in the arena's `present` bits: a carved block is in a hole when any OS page that it overlaps is
// not present. Nobody reads or writes such a block until mx_page_extend carves it once more.
//
// Holes are made by whoever wants memory back: a collecting thread, the background thread. They do
// not wait for the page's owner, which may sleep for hours. That needs no help from malloc and
// free:
//
//   - Only pages at rest are looked at, from which nobody takes blocks. An owner takes a page from
//     rest (`mx_page_hold`) before it allocates from it or releases it, on slow paths.
//   - Meanwhile the owner may free into the page, which only ever puts blocks in front of the first
//     one of the list. So that first block stays, and what lies behind it may be linked anew.
//   - The list as it was seen counts only when blocks, `used` and holes add up to all carved ones,
//     before and after; else the page is busy, and not worth it.
//   - The page's owner itself is in nobody's way, and may move the first block, too.
//   - Blocks that other threads freed, and the owner did not collect, stay on their list: of large
//     ones all but the first and the last OS page is given back where it is, and counts as present.
//
// `lend` is the word that both sides agree on: RESTS may become LENT by whoever makes holes, and 0
// by the owner, in one step each. An owner that finds the page lent takes another one; if it wanted
// to release it, it leaves that to the borrower (GONE).
#ifndef MX_PAGE_HOLES_H
#define MX_PAGE_HOLES_H

#include "freelist.h"

// Builds that check the contents, the links or the canaries of free blocks keep them all. They lend
// pages only to be verified (heap/resting.c).
#define MX_HOLES \
  (!MX_ENCODE_LINKS && !MX_PADDING && !MX_LIVE_BITS && !MX_DEBUG_FILL && !MX_TRACK)

typedef struct mx_holes_s {
  size_t bytes;  // that were given back
  bool is_gone;  // the page was released meanwhile: the caller must do what is left of that
} mx_holes_t;

// What is known of a page while it is lent.
typedef struct mx_view_s {
  mx_page_t* page;
  mx_block_t* first;                       // of the free list when it was read
  mx_block_t* kept;                        // the same where it must stay, or NULL
  uint64_t free[MX_PAGE_BLOCKS_MAX / 64];  // by block: free, on the list or in a hole
} mx_view_t;

// What a live block keeps from being given back: the free memory of the OS pages that it lies in.
typedef struct mx_pins_s {
  double shared;  // bytes of free blocks there, divided by the live ones that keep them
  size_t alone;   // of these, in OS pages where no other block is live
} mx_pins_t;

MX_BEGIN_DECLS
// One thread at a time borrows pages, until mx_holes_end. False: somebody does, or it is forbidden.
bool mx_lending_begin(void);
void mx_holes_end(void);
// Gives back what a page of blocks does not need; nothing when it is not at rest. What follows from
// its answer belongs before mx_holes_end, too: for a thread that forbids it no page is on its way.
mx_holes_t mx_holes_make(mx_page_t* page, bool is_owner);
// The steps of that: borrows a page at rest, to look at it; false when it is not. Gives it back:
// true when it was released meanwhile.
bool mx_holes_borrow(mx_page_t* page);
bool mx_holes_give_back(mx_page_t* page, bool has_holes);
// Sees which blocks of a borrowed page with few enough of them are free; false when it is busy. The
// view says of one that is not on its list, and in no hole, that it is live.
bool mx_holes_look(mx_view_t* view, mx_page_t* page, bool is_owner);
bool mx_view_is_free(const mx_view_t* view, size_t i);
// How many of its OS pages are present.
size_t mx_holes_present(const mx_page_t* page);
// Whether that would probably give back half of what the page has, and not too little.
bool mx_holes_promise(const mx_page_t* page);
// Brings some blocks back from holes. False: there are none. For mx_page_extend.
bool mx_holes_carve(mx_page_t* page);
// How many bytes of holes were filled since the last call: giving those back did not pay.
size_t mx_holes_take_filled(void);
// A number that changes when blocks of the page are used: a page at rest with the same number
// again was idle.
uint32_t mx_holes_signature(const mx_page_t* page);

// How many carved blocks are in holes, each of which gets a bit set, unless NULL; whether one is.
size_t mx_holes_mark(const mx_page_t* page, uint64_t* marks);
bool mx_holes_contain(const mx_page_t* page, size_t block_index);

// Pins of a block that stays live meanwhile (pins.c). Between mx_holes_begin and mx_holes_end.
// Nothing when its page is not at rest: what is free there is about to be used.
mx_pins_t mx_pins_of(mx_page_t* page, const void* block);

// Nobody makes holes and no page is lent until mx_holes_allow, which may be nested: for walks
// over lists of free blocks, and for taking pages from others. One call of the calling thread.
void mx_holes_forbid(void);
void mx_holes_allow(void);
// For fork: holes are made under the lock. In the child whoever forbade it is gone.
bool mx_holes_visit_locks(mx_lock_visit_fn* visit);
void mx_holes_after_fork(void);
MX_END_DECLS

// The same to make holes, in builds that have any.
mx_inline bool mx_holes_begin(void) { return MX_HOLES && mx_lending_begin(); }

mx_inline size_t mx_holes_count(const mx_page_t* page) { return mx_holes_mark(page, NULL); }

// No block is taken from the page from now on. Owner only.
mx_inline void mx_page_rest(mx_page_t* page) {
  const uint8_t old = mx_load_relaxed(&page->lend);
  mx_store_release(&page->lend, (uint8_t)(old | MX_PAGE_RESTS));
}

// The owner wants to allocate from the page. False: it is lent.
mx_inline bool mx_page_hold(mx_page_t* page) {
  uint8_t old = mx_load_relaxed(&page->lend);
  while ((old & MX_PAGE_RESTS) != 0) {
    if ((old & MX_PAGE_LENT) != 0) return false;
    if (mx_cas_weak_acq_rel(&page->lend, &old, (uint8_t)(old & MX_PAGE_HOLES))) return true;
  }
  return true;
}

// The owner wants to release the page. False: it is lent, and the borrower will do it.
mx_inline bool mx_page_hold_or_leave(mx_page_t* page) {
  uint8_t old = mx_load_relaxed(&page->lend);
  while ((old & MX_PAGE_RESTS) != 0) {
    const bool lent = ((old & MX_PAGE_LENT) != 0);
    const uint8_t now = (uint8_t)(lent ? old | MX_PAGE_GONE : 0);
    if (mx_cas_weak_acq_rel(&page->lend, &old, now)) return !lent;
  }
  return true;
}

#endif
