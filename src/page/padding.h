// SPDX-License-Identifier: MIT
// Owns the canaries behind blocks.
//
//      block                        block + size           block + block_size
//        | what the user asked for ... | 0 | slack, filled | canary (8 bytes) |
//
// The canary's low byte is 0, so that no string read runs on through it and no string copy can
// restore it; two bytes hold the slack (block_size - 8 - size) under a key, and five are a hash of
// the page's key, the block's address and the slack. The slack begins with a 0 byte, too. So the
// first byte past the end is always verified, and the user's size is known exactly.
//
// Every carved block has a valid canary at any time, live or free, and so has the place in front of
// the first block. Therefore free can also verify what lies in front of a block.
#ifndef MX_PAGE_PADDING_H
#define MX_PAGE_PADDING_H

#include "../os/track.h"
#include "live.h"

// Bytes behind each block's user part that the library keeps for itself.
#define MX_PAD ((size_t)(MX_PADDING ? 8 : 0))
#define MX_PAD_SLACK_MAX ((size_t)0xFFFF)

mx_inline uint64_t mx_pad_make(uint64_t key, const void* block, size_t slack) {
  const uint64_t hash =
      ((key ^ (uintptr_t)block) + slack * 0xD6E8FEB86659FD93u) * 0x9E3779B97F4A7C15u;
  return (hash & ~(uint64_t)0xFFFFFF) | (((slack ^ (key >> 40)) & 0xFFFF) << 8);
}

mx_inline size_t mx_pad_slack(uint64_t key, uint64_t pad) {
  return (size_t)(((pad >> 8) ^ (key >> 40)) & 0xFFFF);
}

mx_inline mx_atomic(uint64_t) * mx_pad_of(const mx_page_t* page, const void* block) {
  return (mx_atomic(uint64_t)*)((uintptr_t)block + page->block_size - 8);
}

mx_inline bool mx_pad_is_valid(const mx_page_t* page, const void* block) {
  const uint64_t key = page->key;
  mx_track_pause();
  const uint64_t pad = mx_load_relaxed(mx_pad_of(page, block));
  mx_track_resume();
  return pad == mx_pad_make(key, block, mx_pad_slack(key, pad));
}

mx_inline void mx_pad_set(const mx_page_t* page, const void* block, size_t slack) {
  mx_track_pause();
  mx_store_relaxed(mx_pad_of(page, block), mx_pad_make(page->key, block, slack));
  mx_track_resume();
}

#endif
