// SPDX-License-Identifier: MIT
// Owns the checks of the hardened builds and what they say. page/live.h and page/padding.h describe
// what is checked.
#include "harden.h"

#include <string.h>

#include "../base/hooks.h"
#include "../base/options.h"
#include "../page/delay.h"
#include "alloc.h"
#include "guarded.h"

#define EAGAIN_ 11
#define EFAULT_ 14
#define EINVAL_ 22

// ---- the slack behind a block ------------------------------------------------------------------

// Debug builds fill and verify all of the slack, and name the first byte that was hit. Others look
// at the first 8 bytes, which every overflow that begins at the end passes, and behind medium
// blocks at 32 more; without a branch on the slack, which no processor could predict.
#define SLACK_MORE 40

// The byte behind the user's last one is 0; the others differ from it.
static const uint64_t slack_word = 0xDEDEDEDEDEDEDE00u;
static const uint64_t slack_rest = 0xDEDEDEDEDEDEDEDEu;
// Which bits of a word count when that many bytes of it are slack.
static const uint64_t slack_mask[9] = {
    0,           0xFF,         0xFFFF,         0xFFFFFF,        0xFFFFFFFF,
    0xFFFFFFFFFF, 0xFFFFFFFFFFFF, 0xFFFFFFFFFFFFFF, ~(uint64_t)0};

mx_inline uint64_t load64(const void* p) {
  uint64_t word;
  memcpy(&word, p, 8);
  return word;
}

// A short slack shares its word with the canary, which must stay as it is at every moment: another
// thread may be freeing the block behind this one.
mx_inline void fill_slack(uint8_t* end, size_t slack, bool medium) {
  if (MX_DEBUG > 0) {
    memset(end, MX_FILL_SLACK, slack);
    if (slack > 0) end[0] = 0;
    return;
  }
  const uint64_t mask = slack_mask[mx_min(slack, 8)];
  const uint64_t word = (load64(end) & ~mask) | (slack_word & mask);
  memcpy(end, &word, 8);
  if (mx_likely(!medium) || slack < SLACK_MORE) return;
  for (size_t i = 8; i < SLACK_MORE; i += 8) memcpy(end + i, &slack_rest, 8);
}

// How many bytes of the slack are as they were.
static mx_noinline size_t count_intact(const uint8_t* end, size_t slack) {
  if (slack == 0 || end[0] != 0) return 0;
  size_t i = 1;
  while (i < slack && end[i] == MX_FILL_SLACK) i++;
  return i;
}

mx_inline bool slack_is_intact(const uint8_t* end, size_t slack, bool medium) {
  if (MX_DEBUG > 0) return count_intact(end, slack) == slack;
  if (mx_unlikely(((load64(end) ^ slack_word) & slack_mask[mx_min(slack, 8)]) != 0)) return false;
  if (mx_likely(!medium) || slack < SLACK_MORE) return true;
  uint64_t wrong = 0;
  for (size_t i = 8; i < SLACK_MORE; i += 8) wrong |= load64(end + i) ^ slack_rest;
  return wrong == 0;
}

mx_inline void set_size(const mx_page_t* page, void* block, size_t size) {
  const size_t slack = page->block_size - MX_PAD - size;
  fill_slack((uint8_t*)block + size, slack, page->block_size > MX_SMALL_MAX);
  mx_pad_set(page, block, slack);
}

static size_t size_of(const mx_page_t* page, const void* block) {
  if (!MX_PADDING || mx_page_is_guarded(page)) return page->block_size;
  mx_track_pause();
  const size_t slack = mx_pad_slack(page->key, mx_load_relaxed(mx_pad_of(page, block)));
  mx_track_resume();
  const size_t most = page->block_size - MX_PAD;
  return slack > most ? 0 : most - slack;
}

// ---- reports -----------------------------------------------------------------------------------

static void report_free(const char* function, const mx_page_t* page, const void* p) {
  if ((uintptr_t)p % sizeof(void*) != 0) {
    mx_error(EINVAL_, "%s: invalid (unaligned) pointer: %p\n", function, p);
  } else if (!mx_page_could_be_block(page, p)) {
    mx_error(EINVAL_, "%s: invalid pointer: %p (inside a block of size %zu)\n", function, p,
             page->block_size - MX_PAD);
  } else {
    mx_error(EAGAIN_, "%s: double free detected of block %p with size %zu\n", function, p,
             page->block_size - MX_PAD);
  }
}

// The canary of a block, or the slack in front of it, is not what it was.
static mx_noinline void report_overflow(const mx_page_t* page, const void* block) {
  const size_t size = mx_pad_is_valid(page, block) ? size_of(page, block) : 0;
  const size_t most = page->block_size - MX_PAD;
  if (size == 0) {
    mx_error(EFAULT_, "buffer overflow in heap block %p of size %zu: write after %zu bytes\n",
             block, most, most);
    return;
  }
  const size_t good = count_intact((const uint8_t*)block + size, most - size);
  mx_error(EFAULT_, "buffer overflow in heap block %p of size %zu: write after %zu bytes\n", block,
           size, size + good);
}

static mx_noinline void report_underflow(const mx_page_t* page, const void* block) {
  mx_error(EFAULT_, "buffer underflow of heap block %p of size %zu: write before its start, or "
           "past the end of the block in front\n", block, size_of(page, block));
}

static mx_noinline void report_used_after_free(const mx_page_t* page, const void* block,
                                               size_t at) {
  mx_error(EFAULT_, "use after free of heap block %p of size %zu: write at byte %zu\n", block,
           page->block_size - MX_PAD, at);
}

// ---- allocating --------------------------------------------------------------------------------

// Set when a freed block was cleared instead of filled: the option may change at any time.
static mx_atomic(uint8_t) was_cleared;

static void check_fill(const mx_page_t* page, const void* block) {
  const uint8_t* const p = (const uint8_t*)block;
  const size_t first = sizeof(mx_block_t), end = page->block_size - MX_PAD;
  const bool cleared = (first < end && p[first] == 0 && mx_load_relaxed(&was_cleared) != 0);
  const uint8_t fill = (cleared ? 0 : MX_FILL_FREED);
  for (size_t i = first; i < end; i++) {
    if (p[i] == fill) continue;
    report_used_after_free(page, block, i);
    return;
  }
}

static void alloc_checked(mx_page_t* page, void* block, size_t size, bool zero, bool is_zero) {
  if (MX_LIVE_BITS) {
    mx_live_t* const words = mx_live_words(page, block);
    const uint64_t bit = mx_live_bit(block), live = mx_load_relaxed(&words->live);
    if (mx_unlikely((live & bit) != 0)) {
      mx_error(EFAULT_, "corrupted free list: block %p of size %zu is in use\n", block,
               page->block_size - MX_PAD);
    }
    mx_store_relaxed(&words->live, live | bit);
  }
  if (MX_PADDING) {
    if (mx_unlikely(!mx_pad_is_valid(page, block))) {
      report_used_after_free(page, block, page->block_size - MX_PAD);
    }
  }
  if (MX_DEBUG_FILL) check_fill(page, block);
  if (MX_PADDING) set_size(page, block, size);
  if (zero) memset(block, 0, is_zero ? mx_min(sizeof(mx_block_t), size) : size);
  else if (MX_DEBUG_FILL) memset(block, MX_FILL_FRESH, size);
}

void mx_harden_alloc(mx_page_t* page, void* block, size_t size, bool zero, bool is_zero) {
  mx_track_pause();
  alloc_checked(page, block, size, zero, is_zero);
  mx_track_resume();
  mx_track_alloc(block, size, zero);
}

void mx_harden_alloc_huge(void* block, size_t size) {
  if (block == NULL || !MX_PADDING) return;
  mx_page_t* const page = mx_pagemap_get(block);
  mx_track_pause();
  set_size(page, block, size);
  mx_track_resume();
  mx_track_no_access(block, page->block_size);
  mx_track_alloc(block, size, true);
}

// ---- freeing -----------------------------------------------------------------------------------

mx_inline bool check_padding(const mx_page_t* page, void* block) {
  const uint64_t key = page->key;
  const uint64_t pad = mx_load_relaxed(mx_pad_of(page, block));
  const size_t slack = mx_pad_slack(key, pad);
  if (mx_unlikely(pad != mx_pad_make(key, block, slack) || slack > page->block_size - MX_PAD)) {
    report_overflow(page, block);
    mx_pad_set(page, block, 0);
    return true;
  }
  const uint8_t* const end = (const uint8_t*)block + page->block_size - MX_PAD - slack;
  if (mx_unlikely(!slack_is_intact(end, slack, page->block_size > MX_SMALL_MAX))) {
    report_overflow(page, block);
  }
  return true;
}

// What lies in front of a block: the canary of the block before it, or of the page's fence.
mx_inline void check_front(const mx_page_t* page, const void* block) {
  if ((uintptr_t)block % MX_SLICE_SIZE == 0 && block == page->start) return;
  const uint8_t* const before = (const uint8_t*)block - page->block_size;
  if (mx_likely(mx_pad_is_valid(page, before))) return;
  report_underflow(page, block);
  mx_pad_set(page, before, 0);
}

mx_inline void clear_freed(const mx_page_t* page, void* block) {
  const bool zero = (mx_option(zero_on_free) != 0);
  if (!zero && !MX_DEBUG_FILL) return;
  if (zero && MX_DEBUG_FILL) mx_store_relaxed(&was_cleared, (uint8_t)1);
  memset(block, zero ? 0 : MX_FILL_FREED, page->block_size - MX_PAD);
}

static bool free_checked(mx_page_t* page, void* block) {
  if (MX_LIVE_BITS) {
    if (mx_unlikely(!mx_live_test(page, block))) {
      report_free("free", page, block);
      return false;
    }
  }
  if (MX_PADDING) check_padding(page, block);
  if (MX_CHECK_NEIGHBOUR) check_front(page, block);
  clear_freed(page, block);
  if (MX_LIVE_BITS) {
    mx_live_t* const words = mx_live_words(page, block);
    mx_store_relaxed(&words->live, mx_load_relaxed(&words->live) & ~mx_live_bit(block));
  }
  if (!MX_QUARANTINE) return true;
  if (mx_page_delay(page, (mx_block_t*)block)) {
    mx_page_collect(page);
    mx_theap_page_emptied(page->theap, page);
  }
  return false;
}

bool mx_harden_free(mx_page_t* page, void* block) {
  mx_track_free(block);
  mx_track_pause();
  const bool may = free_checked(page, block);
  mx_track_resume();
  return may;
}

static bool free_remote_checked(mx_page_t* page, void* block) {
  if (MX_LIVE_BITS) {
    mx_live_t* const words = mx_live_words(page, block);
    const uint64_t bit = mx_live_bit(block);
    if (mx_unlikely(!mx_live_test(page, block) || (mx_or_acq_rel(&words->gone, bit) & bit) != 0)) {
      report_free("free", page, block);
      return false;
    }
  }
  if (MX_PADDING) check_padding(page, block);
  if (MX_CHECK_NEIGHBOUR) check_front(page, block);
  clear_freed(page, block);
  return true;
}

bool mx_harden_free_remote(mx_page_t* page, void* block) {
  mx_track_free(block);
  mx_track_pause();
  const bool may = free_remote_checked(page, block);
  mx_track_resume();
  return may;
}

static bool free_huge_checked(mx_page_t* page, void* block) {
  // A block that is freed already is told of by who takes its mark.
  if ((mx_load_relaxed(&page->owner) & MX_OWNER_HUGE) == 0) return true;
  if (mx_page_is_guarded(page)) return true;
  return !MX_PADDING || check_padding(page, block);
}

bool mx_harden_free_huge(mx_page_t* page, void* block) {
  mx_track_free(block);
  mx_track_pause();
  const bool may = free_huge_checked(page, block);
  mx_track_resume();
  mx_track_access(block, page->block_size);
  return may;
}

// ---- sizes -------------------------------------------------------------------------------------

size_t mx_harden_usable(const mx_page_t* page, const void* block) {
  if (MX_LIVE_BITS && !mx_page_is_huge(page) && !mx_live_test(page, block)) return 0;
  return size_of(page, block);
}

void mx_harden_shrink(void* block, size_t size) {
  if (!MX_PADDING || block == NULL) return;
  mx_page_t* const page = mx_pagemap_get(block);
  if (mx_page_is_guarded(page)) return;
  if (page->block_size - MX_PAD - size > MX_PAD_SLACK_MAX) return;
  mx_track_pause();
  const size_t old = size_of(page, block);
  set_size(page, block, size);
  mx_track_resume();
  if (MX_TRACK && size < old) mx_track_no_access((uint8_t*)block + size, old - size);
}

bool mx_harden_check_sized(const char* function, const void* block, size_t size, size_t align) {
  if (!MX_CHECK_SIZED || block == NULL) return true;
  const mx_page_t* const page = mx_pagemap_get(block);
  // What is no live block is reported by the free that follows.
  if (mx_pagemap_is_none(page) || mx_page_is_zeroblock(page)) return true;
  if (align > 0 && !mx_is_aligned(block, align)) {
    mx_error(EINVAL_, "%s: block %p is not aligned to %zu bytes\n", function, block, align);
    return false;
  }
  if (mx_page_is_huge(page) ? block != page->start : !mx_live_test(page, block)) return true;
  const size_t has = size_of(page, block);
  if (size == SIZE_MAX || size == has) return true;
  mx_error(EINVAL_, "%s: block %p has size %zu, not %zu\n", function, block, has, size);
  return false;
}
