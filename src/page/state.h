// SPDX-License-Identifier: MIT
// What hardened builds know of a block: whether it is live, by bitmap or by canary.
#ifndef MX_PAGE_STATE_H
#define MX_PAGE_STATE_H

#include "live.h"
#include "padding.h"

#define MX_KNOWS_LIVE (MX_LIVE_BITS || MX_PADDING)

// Whether a live block begins at p, a place in the page where one can. Exact for the page's owner;
// for others unless the block is being freed or allocated at this moment. A block with a damaged
// canary counts as live.
mx_inline bool mx_page_has_live(const mx_page_t* page, const void* p) {
  if (MX_LIVE_BITS) return mx_live_test(page, p);
  if (!MX_PADDING) return true;
  const uint64_t state = mx_pad_state(page, p);
  return !mx_pad_is_free(state) && !mx_pad_is_gone(state);
}

MX_BEGIN_DECLS
// Whether what is noted of a page's blocks is whole, and says of those whose bits are set in `free`
// that they are free, and of no other.
bool mx_page_notes_agree(const mx_page_t* page, const uint64_t* free);
// Of a page whose thread vanished in a fork, in the middle of anything: whether nobody has the
// block; then all that is noted of it says so.
bool mx_page_repair_block(mx_page_t* page, const mx_block_t* block);
// Puts a list of blocks that other threads freed onto the page's, without those that were freed
// twice, which it reports; false when none is left. Owner only.
bool mx_page_accept(mx_page_t* page, mx_block_t* list);
MX_END_DECLS

#endif
