// SPDX-License-Identifier: MIT
// The canaries in front of blocks, which also say whether a block is live.
//
//      block - 8      block                   block + size        block + block_size - 8
//        | canary       | what the user asked for ... | slack       | canary of the next one |
//
// A canary is the key of its page and place, and twice in its bits a state: the size of a live
// block, or that the block is free, or that another thread freed it. One comparison therefore tells
// a live block with a good canary from all else: a block that was freed, an address inside of a
// block, a block that was written before its start. The second copy makes a write show that changes
// the state only, also where the canary of the next block is looked at, whose state is not known:
// no change of one byte goes unseen (in pages of blocks up to 256 KiB, whose sizes are in both
// copies with all their bits), another one by a chance of 1 in 2^42. The lowest byte is 0, so that
// no string read runs on through it.
//
//      63                      46 45          24 23   8 7  0
//        | 18 bits of the state | state         | key  | 0 |
//
// Every carved block has a valid canary at any time, and so has the place behind the last one.
//
//   free -> live   the owner hands the block out
//   fresh -> live  the same for one that was not cleared, or never freed
//   live -> free   the owner frees it
//   live -> gone   another thread frees it
//   live -> left   the same, and does not clear it, or has not yet: then left -> gone
//   gone -> free   the owner collects it; any other state there was a second free in the same
//                  nanoseconds, by the owner or by one more thread
//
// A huge block has nothing in front; its canary lies at the end of its last OS page, and its state
// is the slack. One that lies apart ends with its memory, and has its canary in front, too.
#ifndef MX_PAGE_PADDING_H
#define MX_PAGE_PADDING_H

#include "../os/tags.h"
#include "freelist.h"

// Bytes of each block that the library keeps for itself.
#define MX_PAD ((size_t)(MX_PADDING ? 8 : 0))
// States that are no size: kept as 0 to 3, with the sizes behind. The canary of a free block, which
// each malloc and free needs, is thereby its key itself.
#define MX_PAD_FREE (UINT64_MAX - 3)
#define MX_PAD_FRESH (UINT64_MAX - 2)
#define MX_PAD_LEFT (UINT64_MAX - 1)
#define MX_PAD_GONE UINT64_MAX
#define MX_PAD_FIRST_SIZE 4
// That of carved blocks, which are not told from free ones where it makes no difference.
#define MX_PAD_CARVED (MX_CLEAR_FREED ? MX_PAD_FRESH : MX_PAD_FREE)
#define MX_PAD_STATE_SHIFT 24
#define MX_PAD_STATE_BITS 22
#define MX_PAD_SIZE_END ((uint64_t)1 << 20)
#define MX_PAD_SMALL_END ((uint64_t)2048)

mx_static_assert(MX_BIN_MAX_SIZE < MX_PAD_SIZE_END, "every size is a state");
mx_static_assert(MX_SMALL_MAX + MX_PAD_FIRST_SIZE < MX_PAD_SMALL_END, "their states are less");

mx_inline uint64_t mx_pad_make(uint64_t place_key, uint64_t state) {
  // Both copies at once, as no bits of one meet the other's.
  uint64_t twice = ((uint64_t)1 << MX_PAD_STATE_BITS | 1) << MX_PAD_STATE_SHIFT;
  mx_keep_factor(twice, state);
  return place_key ^ (state + MX_PAD_FIRST_SIZE) * twice;
}

// The state where it stands in a canary, and nothing else, if the canary is what it was.
mx_inline uint64_t mx_pad_once(uint64_t place_key, uint64_t pad) {
  const uint64_t twice = pad ^ place_key;
  return twice ^ twice << MX_PAD_STATE_BITS;
}

mx_inline uint64_t mx_pad_lower(uint64_t once) {
  return once << (64 - MX_PAD_STATE_SHIFT) | once >> MX_PAD_STATE_SHIFT;
}

// The state; none of those that there are when the canary is not what it was.
mx_inline uint64_t mx_pad_state_of(uint64_t place_key, uint64_t pad) {
  return mx_pad_lower(mx_pad_once(place_key, pad)) - MX_PAD_FIRST_SIZE;
}

// The same by the two copies of the state alone.
mx_inline uint64_t mx_pad_state_by_copies(uint64_t place_key, uint64_t pad) {
  const uint64_t key_bits = ((uint64_t)1 << MX_PAD_STATE_SHIFT) - 1;
  return mx_pad_state_of(place_key & ~key_bits, pad & ~key_bits);
}

// Whether the canary of a page of blocks to MX_SMALL_MAX is what it was.
mx_inline bool mx_pad_is_right(uint64_t once) { return mx_pad_lower(once) < MX_PAD_SMALL_END; }

// Whether it is that of a block on its page's lists.
mx_inline bool mx_pad_is_free(uint64_t state) {
  return state == MX_PAD_FREE || state == MX_PAD_FRESH;
}

// Whether it is that of a block that another thread freed.
mx_inline bool mx_pad_is_gone(uint64_t state) {
  return state == MX_PAD_GONE || state == MX_PAD_LEFT;
}

// Whether it is that of a live block.
mx_inline bool mx_pad_is_size(uint64_t state) { return state < MX_PAD_SIZE_END; }

// Whether there is such a state in a page of blocks of that size.
mx_inline bool mx_pad_is_state(uint64_t state, size_t block_size) {
  return state + MX_PAD_FIRST_SIZE < block_size;
}

mx_inline mx_atomic(uint64_t) * mx_pad_of(const void* block) {
  return (mx_atomic(uint64_t)*)((uintptr_t)block - 8);
}

// A canary shares its 16 bytes with the end of the block in front, whose tag they have.
mx_inline uint64_t mx_pad_read(const void* block) {
  if (mx_has_tags()) return mx_tag_load((const void*)mx_pad_of(block));
  return mx_load_relaxed(mx_pad_of(block));
}

mx_inline void mx_pad_write(const void* block, uint64_t pad) {
  if (mx_has_tags()) mx_tag_store((void*)mx_pad_of(block), pad);
  else mx_store_relaxed(mx_pad_of(block), pad);
}

mx_inline uint64_t mx_pad_state(const mx_page_t* page, const void* block) {
  mx_track_pause();
  const uint64_t pad = mx_pad_read(block);
  mx_track_resume();
  return mx_pad_state_of(mx_place_key(page, block), pad);
}

// The same of a canary that was written over: what its copies tell, behind the bytes of the key,
// which go first, or that of a live block without slack.
mx_inline uint64_t mx_pad_state_left(const mx_page_t* page, const void* block) {
  uint64_t state = mx_pad_state(page, block);
  if (mx_likely(mx_pad_is_state(state, page->block_size))) return state;
  state = mx_pad_state_by_copies(mx_place_key(page, block), mx_pad_read(block));
  return mx_pad_is_state(state, page->block_size) ? state : page->block_size - MX_PAD;
}

mx_inline void mx_pad_set(const mx_page_t* page, const void* block, uint64_t state) {
  mx_check(page->bin != MX_BIN_HUGE);
  mx_track_pause();
  mx_pad_write(block, mx_pad_make(mx_place_key(page, block), state));
  mx_track_resume();
}

// Makes a canary that was written over one of its place again.
mx_inline void mx_pad_mend(const mx_page_t* page, const void* block) {
  mx_pad_set(page, block, mx_pad_state_left(page, block));
}

// The canary of a huge block.
mx_inline mx_atomic(uint64_t) * mx_pad_of_huge(const mx_page_t* page) {
  return mx_pad_of(page->start + (mx_page_is_apart(page) ? 0 : page->block_size));
}

mx_inline uint64_t mx_pad_state_huge(const mx_page_t* page) {
  mx_track_pause();
  const uint64_t pad = mx_load_relaxed(mx_pad_of_huge(page));
  mx_track_resume();
  return mx_pad_state_of(mx_place_key(page, page->start), pad);
}

mx_inline void mx_pad_set_huge(const mx_page_t* page, size_t slack) {
  mx_check(page->bin == MX_BIN_HUGE && slack <= page->block_size - MX_PAD);
  mx_track_pause();
  mx_store_relaxed(mx_pad_of_huge(page), mx_pad_make(mx_place_key(page, page->start), slack));
  mx_track_resume();
}

#endif
