// SPDX-License-Identifier: MIT
// The slack of a block in builds with canaries: what lies between the bytes that were asked for and
// the canary of the next block.
//
// Most small blocks have a slack of 15 bytes at most, where a write does no harm; the canary sees
// one that goes on. Behind larger ones, and small ones that were aligned or became smaller, that
// canary may be far away: secure builds fill and verify the 8 bytes next to the end, and look at
// the canary only where there is no room for them. Debug builds fill and verify all of it. A large
// block ends with its memory, but for what its alignment leaves: there as much is filled as there
// is, to 8 bytes.
#ifndef MX_PAGE_SLACK_H
#define MX_PAGE_SLACK_H

#include <string.h>

#include "padding.h"

#define MX_SLACK_CHECKED 8
#define MX_SLACK_SMALL 16  // from so much on also in small blocks: more than rounding leaves
#define MX_SLACK_WORD 0xDEDEDEDEDEDEDEDEu

// How much of the slack is filled.
mx_inline size_t mx_slack_filled(size_t block_size, size_t slack) {
  if (MX_DEBUG > 0) return slack;
  if (slack < MX_SLACK_CHECKED) return block_size > MX_SHARED_MAX ? slack : 0;
  return block_size > MX_SMALL_MAX || slack >= MX_SLACK_SMALL ? MX_SLACK_CHECKED : 0;
}

// Whether this is the size of a live block whose slack, in a page of small blocks, is not filled.
mx_inline bool mx_slack_is_short(size_t block_size, uint64_t state) {
  const uint64_t most = block_size - MX_PAD;
  return state <= most && most - state < MX_SLACK_SMALL;
}

// The same as below for a secure build's block that is not alone in its page, in the fewest steps.
mx_inline void mx_slack_fill_shared(const mx_page_t* page, void* block, size_t size) {
  mx_check(size <= page->block_size - MX_PAD);
  const uint64_t word = MX_SLACK_WORD;
  const size_t slack = page->block_size - MX_PAD - size;
  if (mx_slack_filled(page->block_size, slack) == 0) return;
  memcpy((uint8_t*)block + size, &word, MX_SLACK_CHECKED);
}

// Fills the slack of a block that has `size` bytes.
mx_inline void mx_slack_fill(const mx_page_t* page, void* block, size_t size) {
  mx_check(size <= page->block_size - MX_PAD);
  const uint64_t word = MX_SLACK_WORD;
  const size_t filled = mx_slack_filled(page->block_size, page->block_size - MX_PAD - size);
  uint8_t* const end = (uint8_t*)block + size;
  if (MX_DEBUG > 0) memset(end, MX_FILL_SLACK, filled);
  else if (filled == MX_SLACK_CHECKED) memcpy(end, &word, MX_SLACK_CHECKED);
  else if (page->block_size > MX_SHARED_MAX) memcpy(end, &word, filled);
}

// Whether the slack of a block of a secure build, which is filled, is as it was.
mx_inline bool mx_slack_is_intact(const uint8_t* end) {
  uint64_t word;
  if (mx_has_tags()) return mx_tag_load(end) == MX_SLACK_WORD;
  memcpy(&word, end, MX_SLACK_CHECKED);
  return word == MX_SLACK_WORD;
}

#endif
