// SPDX-License-Identifier: MIT
// What hardened builds do with whole lists and pages: bitmaps of live blocks, blocks that
// other threads freed, blocks in quarantine.
#include "state.h"

#include <string.h>

#include "../base/hooks.h"
#include "delay.h"

void mx_live_clear(mx_page_t* page) {
  if (!MX_LIVE_BITS) return;
  mx_check(page->arena != NULL);
  for (uint32_t i = 0; i < page->slice_count; i++) {
    const uintptr_t record = (uintptr_t)page + i * MX_PAGE_RECORD_STRIDE + MX_PAGE_RECORD_SIZE;
    memset((void*)(record + MX_PAGE_EXTRA_SIZE), 0, MX_LIVE_SIZE);
  }
}

// Clears a block's bits; false when they say that it is not live.
static bool end_live(mx_page_t* page, const mx_block_t* block) {
  mx_check((mx_load_relaxed(&page->remote) & 1) != 0);
  mx_live_t* const words = mx_live_words(page, block);
  const uint64_t bit = mx_live_bit(block);
  const uint64_t live = mx_load_relaxed(&words->live);
  mx_store_relaxed(&words->live, live & ~bit);
  mx_and_acq_rel(&words->gone, ~bit);
  return (live & bit) != 0;
}

// Whether the canary says that another thread freed the block; then it is a free one's.
static bool end_gone(const mx_page_t* page, const mx_block_t* block) {
  const uint64_t key = mx_place_key(page, block);
  mx_track_pause();
  const uint64_t pad = mx_pad_read(block);
  mx_track_resume();
  if (mx_likely(pad == mx_pad_make(key, MX_PAD_GONE))) {
    mx_pad_set(page, block, MX_PAD_FREE);
    return true;
  }
  const uint64_t state = mx_pad_state(page, block);
  if (mx_pad_is_free(state) || mx_pad_is_size(state)) return false;
  if (!mx_pad_is_gone(state)) {
    mx_error(EFAULT, "use after free of heap block %p of size %zu: write at byte %zu\n",
             (const void*)block, page->block_size - MX_PAD, page->block_size - MX_PAD);
  }
  mx_pad_set(page, block, MX_PAD_CARVED);
  return true;
}

bool mx_page_accept(mx_page_t* page, mx_block_t* list) {
  mx_check(list != NULL && !mx_page_is_huge(page));
  mx_block_t* last = NULL;
  uint32_t count = 0;
  mx_block_t* b = list;
  // A block that two threads entered makes a ring of the list.
  for (uint32_t steps = 0; b != NULL && steps < page->capacity; steps++) {
    mx_block_t* const next = mx_block_next(page, b);
    const bool was_live = (!MX_LIVE_BITS || end_live(page, b));
    if ((MX_PADDING && !end_gone(page, b)) || !was_live) {
      mx_error(EAGAIN, "free: double free detected of block %p with size %zu\n", (void*)b,
               page->block_size - MX_PAD);
      if (last == NULL) list = next;
      else mx_block_set_next(page, last, next);
    } else {
      last = b;
      count++;
    }
    b = next;
  }
  if (last == NULL) return false;
  mx_check(page->used >= count);
  mx_block_set_next(page, last, page->free);
  mx_fence_compiler();  // as in mx_page_push
  page->free = list;
  mx_fence_compiler();
  page->used -= count;
  return true;
}

void mx_page_init_delay(mx_page_t* page) {
  page->wait = NULL;
  if (MX_WAIT_PLACES == 1) return;
  mx_page_extra_t* const extra = mx_page_extra(page);
  memset(extra, 0, sizeof(*extra));
  extra->random = (uint32_t)(page->key >> 32);
  const size_t places = mx_min(MX_WAIT_BYTES / page->block_size, MX_WAIT_PLACES);
  extra->mask = (places < 2 ? 0 : (1u << mx_bit_high(places)) - 1);
  mx_check(extra->mask < MX_WAIT_PLACES);
}

bool mx_page_end_delay(mx_page_t* page) {
  const uint32_t mask = mx_page_wait_mask(page);
  mx_check(mask < MX_WAIT_PLACES);
  bool any = false;
  for (uint32_t i = 0; i <= mask; i++) {
    mx_block_t** const place = mx_page_wait_place(page, i);
    mx_block_t* const block = *place;
    if (block == NULL) continue;
    mx_check(mx_page_is_block(page, block));
    mx_page_end_wait(page, block, false);
    *place = NULL;
    any = true;
  }
  return any;
}

void mx_page_forget_delay(mx_page_t* page) {
  for (uint32_t i = 0; i < MX_WAIT_PLACES; i++) *mx_page_wait_place(page, i) = NULL;
}

// What waits is a list of one block.
bool mx_page_mark_delayed(const mx_page_t* page, uint64_t* seen, size_t* count) {
  for (uint32_t i = 0; i < MX_WAIT_PLACES; i++) {
    if (!mx_freelist_mark(page, *mx_page_wait_place(page, i), seen, count)) return false;
  }
  return true;
}

static bool has_live_bit(const mx_page_t* page, const mx_block_t* block) {
  return (mx_load_relaxed(&mx_live_words(page, block)->live) & mx_live_bit(block)) != 0;
}

// Whether what is noted of the block is whole, and says that it is free or not.
static bool is_noted(const mx_page_t* page, const mx_block_t* block, bool is_free) {
  if (!MX_PADDING) return has_live_bit(page, block) != is_free;
  const uint64_t state = mx_pad_state(page, block);
  return mx_pad_is_state(state, page->block_size) && mx_pad_is_free(state) == is_free;
}

bool mx_page_notes_agree(const mx_page_t* page, const uint64_t* free) {
  for (size_t i = 0; i < page->capacity; i++) {
    const mx_block_t* const block =
        (const mx_block_t*)(const void*)(page->start + i * page->block_size);
    if (!is_noted(page, block, mx_has_bit(free, i))) return false;
  }
  return true;
}

bool mx_page_repair_block(mx_page_t* page, const mx_block_t* block) {
  mx_check(mx_page_is_block(page, block));
  if (MX_PADDING) {
    const uint64_t state = mx_pad_state(page, block);
    if (!mx_pad_is_state(state, page->block_size)) mx_pad_set(page, block, 0);
    if (!mx_pad_is_free(state)) return false;
    mx_pad_set(page, block, MX_PAD_CARVED);  // it may be cleared in part
    if (MX_LIVE_BITS) end_live(page, block);
    return true;
  }
  return !has_live_bit(page, block);
}
