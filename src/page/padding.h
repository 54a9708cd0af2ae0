// SPDX-License-Identifier: MIT
// Owns the canaries in front of blocks, which also say whether a block is live.
//
//      block - 8      block                   block + size        block + block_size - 8
//        | canary       | what the user asked for ... | slack       | canary of the next one |
//
// A canary is the key of its page and place, and in 22 of its middle bits a state: the size of a
// live block, or that the block is free, or that another thread freed it. One comparison therefore
// tells a live block with a good canary from all else: a block that was freed, an address inside of
// a block, a block that was written before its start. The three low bytes are the same for all
// blocks of a page, so that the one behind a block can be looked at with less work: who writes past
// the end hits those first. The lowest byte is 0, so that no string read runs on through it.
//
// Every carved block has a valid canary at any time, and so has the place behind the last one.
//
//   free -> live   the owner hands the block out
//   live -> free   the owner frees it
//   live -> gone   another thread frees it
//   gone -> free   the owner collects it; any other state there was a second free in the same
//                  nanoseconds, by the owner or by one more thread
//
// A huge block has nothing in front; its canary lies at the end of its last OS page, and its state
// is the slack.
#ifndef MX_PAGE_PADDING_H
#define MX_PAGE_PADDING_H

#include "freelist.h"

// Bytes of each block that the library keeps for itself.
#define MX_PAD ((size_t)(MX_PADDING ? 8 : 0))
#define MX_PAD_FREE ((uint64_t)1 << 20)
#define MX_PAD_GONE ((uint64_t)2 << 20)
#define MX_PAD_STATE_SHIFT 24

mx_static_assert(MX_BIN_MAX_SIZE < ((size_t)1 << 20), "every size is a state");

mx_inline uint64_t mx_pad_make(uint64_t place_key, uint64_t state) {
  return place_key ^ (state << MX_PAD_STATE_SHIFT);
}

// The state; larger than MX_PAD_GONE when the canary is not what it was.
mx_inline uint64_t mx_pad_state_of(uint64_t place_key, uint64_t pad) {
  const uint64_t x = pad ^ place_key;
  return x << (64 - MX_PAD_STATE_SHIFT) | x >> MX_PAD_STATE_SHIFT;
}

mx_inline mx_atomic(uint64_t) * mx_pad_of(const void* block) {
  return (mx_atomic(uint64_t)*)((uintptr_t)block - 8);
}

mx_inline uint64_t mx_pad_state(const mx_page_t* page, const void* block) {
  mx_track_pause();
  const uint64_t pad = mx_load_relaxed(mx_pad_of(block));
  mx_track_resume();
  return mx_pad_state_of(mx_place_key(page, block), pad);
}

mx_inline void mx_pad_set(const mx_page_t* page, const void* block, uint64_t state) {
  mx_track_pause();
  mx_store_relaxed(mx_pad_of(block), mx_pad_make(mx_place_key(page, block), state));
  mx_track_resume();
}

// Whether a canary is untouched, as far as can be told from its first bytes and the key of any
// place in its page.
mx_inline bool mx_pad_looks_intact(uint64_t place_key, uint64_t pad) {
  return ((pad ^ place_key) & 0xFFFFFF) == 0;
}

// The canary of a huge block.
mx_inline mx_atomic(uint64_t) * mx_pad_of_huge(const mx_page_t* page) {
  return mx_pad_of(page->start + page->block_size);
}

mx_inline uint64_t mx_pad_state_huge(const mx_page_t* page) {
  mx_track_pause();
  const uint64_t pad = mx_load_relaxed(mx_pad_of_huge(page));
  mx_track_resume();
  return mx_pad_state_of(mx_place_key(page, page->start), pad);
}

mx_inline void mx_pad_set_huge(const mx_page_t* page, size_t slack) {
  mx_track_pause();
  mx_store_relaxed(mx_pad_of_huge(page), mx_pad_make(mx_place_key(page, page->start), slack));
  mx_track_resume();
}

#endif
