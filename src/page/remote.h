// SPDX-License-Identifier: MIT
// The ownership protocol: every step by which threads share a page without a lock.
//
// `page->remote` is one word: the list of blocks freed by other threads, in its lowest bit whether
// the page is owned, and where words are wide how many blocks the list has, in the bits that no
// address has, so that nobody has to walk along what other processors wrote last. Its transitions:
//
//   push       any thread that frees a block: list grows, owned bit set. Whoever finds the bit
//              clear has thereby become the owner.
//   try_claim  any thread that looks for a page: sets the bit if it was clear.
//   take       the owner: takes the whole list, keeps the bit.
//   disown     the owner: clears the bit, only if the list is empty.
//
// Push, claim and disown are read-modify-writes with acquire and release, so all that an owner did
// to the page is seen by the next one. `page->owner` is a relaxed hint for free(): a thread finds
// its own id there only if it wrote it itself and has not disowned the page since.
#ifndef MX_PAGE_REMOTE_H
#define MX_PAGE_REMOTE_H

#include "freelist.h"

#define MX_OWNED ((uintptr_t)1)

// Whether words have room for the count.
#define MX_COUNTS_REMOTE MX_64BIT
#define MX_REMOTE_COUNT_SHIFT (MX_64BIT ? MX_PAGEMAP_BITS : 0)
#define MX_REMOTE_COUNT_ONE (MX_64BIT ? (uintptr_t)1 << MX_REMOTE_COUNT_SHIFT : (uintptr_t)0)
#define MX_REMOTE_COUNT_MASK (0 - MX_REMOTE_COUNT_ONE)

// A list as it was taken. `count`: 0 where words have no room for it.
typedef struct mx_remote_list_s {
  mx_block_t* first;
  uint32_t count;
} mx_remote_list_t;

mx_inline mx_remote_list_t mx_remote_list_of(uintptr_t word) {
  const mx_remote_list_t list = {(mx_block_t*)(word & ~(MX_REMOTE_COUNT_MASK | MX_OWNED)),
                                 MX_64BIT ? (uint32_t)(word >> MX_REMOTE_COUNT_SHIFT) : 0};
  return list;
}

// The word of an owned page whose list is `old`'s behind `count` blocks that begin with `first`.
mx_inline uintptr_t mx_remote_word(uintptr_t old, const mx_block_t* first, uint32_t count) {
  return ((old & MX_REMOTE_COUNT_MASK) + count * MX_REMOTE_COUNT_ONE) | (uintptr_t)first | MX_OWNED;
}

// The same for one block, where `old` is owned and its list begins with `next`: what `old` has
// beside that stays, which takes a mask less.
mx_inline uintptr_t mx_remote_word_on(uintptr_t old, uintptr_t next, uintptr_t block) {
  return block + MX_REMOTE_COUNT_ONE - next + old;
}

MX_BEGIN_DECLS
// Reports a block that is freed although it is the one that others freed last.
void mx_remote_refuse(const mx_page_t* page, const mx_block_t* block);
MX_END_DECLS

// Frees a list of `count` blocks from outside, which ends in `last`. True: the caller now owns the
// page and must hand it on. One that is the first of those that are there already is refused: it
// would make a ring of them.
mx_inline bool mx_remote_push_list(mx_page_t* page, mx_block_t* first, mx_block_t* last,
                                   uint32_t count) {
  mx_check(first != NULL && last != NULL && count > 0 && ((uintptr_t)first & MX_OWNED) == 0);
  uintptr_t old = mx_load_relaxed(&page->remote);
  do {
    mx_block_t* const next = mx_remote_list_of(old).first;
    if (mx_unlikely(next == last)) {
      mx_remote_refuse(page, last);
      return false;
    }
    mx_block_set_next(page, last, next);
  } while (!mx_cas_weak_acq_rel(&page->remote, &old, mx_remote_word(old, first, count)));
  return (old & MX_OWNED) == 0;
}

// Frees a block from outside. False: the page had no owner, and nothing was done.
mx_inline bool mx_remote_push_owned(mx_page_t* page, mx_block_t* block) {
  mx_check(block != NULL && ((uintptr_t)block & MX_OWNED) == 0);
  uintptr_t old = mx_load_relaxed(&page->remote);
  do {
    mx_block_t* const next = mx_remote_list_of(old).first;
    if (mx_unlikely((old & MX_OWNED) == 0)) return false;
    if (mx_unlikely(next == block)) {
      mx_remote_refuse(page, block);
      break;
    }
    mx_block_set_next(page, block, next);
  } while (!mx_cas_weak_acq_rel(&page->remote, &old, mx_remote_word(old, block, 1)));
  return true;
}

// As mx_remote_push_list for one block.
mx_inline bool mx_remote_push(mx_page_t* page, mx_block_t* block) {
  return mx_remote_push_list(page, block, block, 1);
}

// As mx_remote_push_owned, tried once: what fails is left to that. False: the page had no owner,
// another thread was first, or the block is free already; the list is as it was.
mx_inline bool mx_remote_push_once(mx_page_t* page, mx_block_t* block) {
  mx_check(block != NULL && ((uintptr_t)block & MX_OWNED) == 0);
  uintptr_t old = mx_load_relaxed(&page->remote);
  mx_block_t* const next = mx_remote_list_of(old).first;
  if (mx_unlikely((old & MX_OWNED) == 0 || next == block)) return false;
  mx_block_set_next(page, block, next);
  const uintptr_t word = mx_remote_word_on(old, (uintptr_t)next, (uintptr_t)block);
  return mx_cas_weak_acq_rel(&page->remote, &old, word);
}

// Becomes the owner of an abandoned page; false when somebody else is.
mx_inline bool mx_remote_try_claim(mx_page_t* page) {
  mx_check(page != &mx_page_none);
  uintptr_t old = mx_load_relaxed(&page->remote);
  do {
    if ((old & MX_OWNED) != 0) return false;
  } while (!mx_cas_weak_acq_rel(&page->remote, &old, old | MX_OWNED));
  return true;
}

// How many blocks others freed that were not taken yet; 0 where they are not counted.
mx_inline uint32_t mx_remote_count(const mx_page_t* page) {
  return mx_remote_list_of(mx_load_relaxed(&page->remote)).count;
}

mx_inline bool mx_remote_is_empty(const mx_page_t* page) {
  return (mx_load_relaxed(&page->remote) & ~MX_OWNED) == 0;
}

// Takes all blocks that others freed. Owner only.
mx_inline mx_remote_list_t mx_remote_take(mx_page_t* page) {
  mx_check((mx_load_relaxed(&page->remote) & MX_OWNED) != 0);
  if (mx_remote_is_empty(page)) return mx_remote_list_of(0);
  return mx_remote_list_of(mx_exchange_acq_rel(&page->remote, MX_OWNED));
}

// Gives the page up. False: blocks were freed meanwhile, and the caller still owns it.
mx_inline bool mx_remote_disown(mx_page_t* page) {
  mx_check((mx_load_relaxed(&page->remote) & MX_OWNED) != 0);
  mx_check((mx_load_relaxed(&page->owner) & ~MX_OWNER_TAGS) == 0);
  uintptr_t owned_and_empty = MX_OWNED;
  return mx_cas_strong_acq_rel(&page->remote, &owned_and_empty, (uintptr_t)0);
}

// Whether a thread has the page. Those of a parked theap are owned, but nobody's: any thread that
// begins may have them.
mx_inline bool mx_page_has_thread(const mx_page_t* page) {
  return (mx_load_relaxed(&page->remote) & MX_OWNED) != 0 && mx_load_relaxed(&page->owner) != 0;
}

#endif
