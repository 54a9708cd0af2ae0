// SPDX-License-Identifier: MIT
// The checks that hardened builds (debug, secure, padding, checked free) add to the paths of
// malloc and free. In a release build every condition here is a constant, and costs nothing.
//
// The verbs: `alloc` follows the taking of a block off its page's list, `free` puts one back or
// where it waits. What they find wrong is reported with the function, the pointer and the size, and
// then ends the process or is ignored as the option abort_on_error says.
//
// `take` and `put` are the same for the common case of a secure build, inlined. They change nothing
// before all is verified; what is not as it should be is left to alloc and free, which look again.
#ifndef MX_ALLOC_HARDEN_H
#define MX_ALLOC_HARDEN_H

#include <string.h>

#include "../base/options.h"
#include "../heap/heap.h"
#include "../os/thread.h"
#include "../page/clear.h"
#include "../page/delay.h"
#include "../page/slack.h"
#include "../page/state.h"

#define MX_HARDEN (MX_LIVE_BITS || MX_PADDING || MX_QUARANTINE || MX_DEBUG_FILL || MX_TRACK)

// These fill and verify every byte, or tell a memory tool: one more call does not matter.
#define MX_HARDEN_SLOWLY (MX_DEBUG > 0 || MX_TRACK)

// Whether mx_page_begins_block says all that there is to know of a pointer into a page of blocks.
#define MX_KNOWS_BLOCKS (MX_RECIPROCALS && !MX_HARDEN)

// With zero blocks, requests of 0 bytes leave the fast path: sizes are compared less one.
#define MX_SIZE_MIN ((size_t)(MX_ZERO_BLOCKS ? 1 : 0))

MX_BEGIN_DECLS
// A block leaves the free lists for `size` bytes of user data; `zero`: all of them read as zero,
// which is so already but for a link when `is_zero`.
void mx_harden_alloc(mx_page_t* page, void* block, size_t size, bool zero, bool is_zero);
// As alloc, for the block of a huge page.
void mx_harden_alloc_huge(void* block, size_t size, bool zero);
// Frees a block of a page of this thread, or says why not. True when the page has become empty.
bool mx_harden_free(mx_page_t* page, void* block);
// Whether another thread may push a block; from then on it counts as freed.
bool mx_harden_free_remote(mx_page_t* page, void* block);
// The same for a block whose canary is right, but not for one that is cleared in place; false says
// nothing yet.
bool mx_harden_put_remote_larger(const mx_page_t* page, void* block);
// Verifies a huge block that is to be freed.
void mx_harden_free_huge(mx_page_t* page, void* block);
// The bytes that a user may write to a live block.
size_t mx_harden_usable(const mx_page_t* page, const void* block);
// Sets the user's size of a live block, at most what it is: for blocks that alignment made larger.
void mx_harden_shrink(void* block, size_t size);
// Makes a live block, which is verified, one of `size` bytes, where it has room for them and they
// are at least half of it, or any part if it must; with `zero` new ones read as zero. False: it
// stays as it is.
bool mx_harden_resize(mx_page_t* page, void* block, size_t size, bool zero, bool must);
// Verifies a live huge block; false when it was reported as damaged.
bool mx_harden_check_huge(mx_page_t* page, const void* block);
// Verifies what lies before and behind a live block of any page.
void mx_harden_check(mx_page_t* page, const void* block);
// Reports that `function` was given p, which stands for no live block; `page` holds it, or NULL.
void mx_harden_report_pointer(const char* function, const mx_page_t* page, const void* p);
// Whether `block` was allocated with this size and alignment, as a sized or aligned free says
// (SIZE_MAX, 0: not said); reports when not. For the API's frees and deletes.
bool mx_harden_check_sized(const char* function, const void* block, size_t size, size_t align);

// ---- blocks of no bytes (zero_sized.c) ----------------------------------------------------------
void* mx_zero_sized_alloc(size_t align);
void mx_zero_sized_free(mx_page_t* page, void* p);
bool mx_zero_sized_visit_locks(mx_lock_visit_fn* visit);  // for fork
MX_END_DECLS

mx_inline bool mx_page_is_zero_sized(const mx_page_t* page) {
  return MX_ZERO_BLOCKS && page->bin == 0;
}

mx_inline size_t mx_usable_of(const mx_page_t* page, const void* block) {
  return MX_PADDING ? mx_harden_usable(page, block) : page->block_size;
}

// ---- allocating --------------------------------------------------------------------------------

// Makes a block one of `size` bytes.
mx_inline void mx_harden_set_size(const mx_page_t* page, void* block, size_t size) {
  mx_slack_fill(page, block, size);
  mx_fence_compiler();  // a verifier that sees the new size finds the slack
  mx_pad_set(page, block, size);
}

// Takes the page's first free block for `size` bytes; NULL when there is none, or when something is
// wrong with it, which the slow path will tell. `is_small`: as blocks to MX_SMALL_MAX are; `zero`:
// it is to read as zero; `is_larger`: the block may be larger than MX_CLEAR_PLAIN. Owner only.
mx_inline mx_block_t* mx_harden_take(mx_page_t* page, size_t size, bool is_small, bool zero,
                                     bool is_larger) {
  mx_block_t* block = page->free;
  mx_keep_in_result(block);
  if (mx_unlikely(block == NULL)) return NULL;
  const uint64_t key = mx_place_key(page, block);
  uintptr_t link = block->next;
  bool is_clear = false;
  if (MX_ENCODE_LINKS) {
    link ^= (uintptr_t)key;
    const bool leads_home = (is_small ? mx_link_leads_near(block, link)
                                      : mx_link_leads_home(page, block, link));
    if (mx_unlikely(!leads_home) && link != 0) return NULL;
  }
  if (MX_PADDING) {
    const uint64_t pad = mx_pad_read(block);
    if (mx_likely(pad == mx_pad_make(key, MX_PAD_FREE))) {
      if (MX_CLEAR_FREED && mx_unlikely(!mx_is_clear(block, size, is_larger))) return NULL;
      is_clear = (MX_CLEAR_FREED && size <= sizeof(mx_block_t) + mx_clear_size(page->block_size));
    } else if (!MX_CLEAR_FREED || pad != mx_pad_make(key, MX_PAD_FRESH)) {
      return NULL;
    }
  }
  if (MX_LIVE_BITS && mx_unlikely(!mx_live_begin(page, block))) return NULL;
  if (MX_PADDING) mx_pad_write(block, mx_pad_make(key, size));
  if (MX_PADDING && !is_small) mx_slack_fill_shared(page, block, size);
  page->free = (mx_block_t*)link;
  page->used++;
  mx_check(page->used <= page->capacity + 1 && size <= page->block_size - MX_PAD);
  if (zero && is_clear) block->next = 0;
  else if (zero) memset(block, 0, size);
  return block;
}

// Whether p is a block of this thread's that was allocated with this size and alignment. False says
// nothing yet.
mx_inline bool mx_harden_agrees(const void* p, size_t size, size_t align) {
  const mx_page_t* const page = mx_pagemap_get(p);
  if (!mx_thread_is(mx_load_relaxed(&page->owner))) return false;
  if (align > 0 && !mx_is_aligned(p, align)) return false;
  return size == SIZE_MAX || mx_pad_state(page, p) == size;
}

// ---- freeing -----------------------------------------------------------------------------------

// Whether nobody wrote past the end of a live block of `size` bytes.
mx_inline bool mx_harden_end_is_intact(const mx_page_t* page, const void* block, size_t size) {
  if (!MX_CHECK_END) return true;
  const size_t whole = page->block_size;
  const uint8_t* const p = (const uint8_t*)block;
  if (mx_unlikely(mx_slack_filled(whole, whole - MX_PAD - size) > 0)) {
    return mx_slack_is_intact(p + size);
  }
  const uint64_t key = mx_place_key(page, p + whole);
  return mx_pad_is_state(mx_pad_state_of(key, mx_pad_read(p + whole)), whole);
}

// Stands for the size of a block of which none is said.
#define MX_SIZE_UNSAID UINT64_MAX

// Whether this is a live block that nobody wrote over, of `said` bytes unless that is left open;
// false says nothing yet.
mx_inline bool mx_harden_is_sound(const mx_page_t* page, const void* block, uint64_t key,
                                  bool is_small, uint64_t said) {
  if (MX_HARDEN_SLOWLY) return false;
  if (!is_small && mx_unlikely(mx_option(zero_on_free) != 0)) return false;
  if (MX_LIVE_BITS && mx_unlikely(!mx_live_test(page, block))) return false;
  if (!MX_PADDING) return true;
  const uint64_t pad = mx_pad_read(block);
  if (MX_CHECK_END && is_small && said == MX_SIZE_UNSAID) {
    // Behind an address that begins no block nothing may be there.
    const uint64_t state = mx_pad_state_of(key, pad);
    if (mx_unlikely(!mx_slack_is_short(page->block_size, state))) return false;
    const uint8_t* const next = (const uint8_t*)block + page->block_size;
    const uint64_t next_pad = mx_pad_read(next);
    return mx_likely(mx_pad_is_right(mx_pad_once(mx_place_key(page, next), next_pad)));
  }
  const uint64_t size = (said == MX_SIZE_UNSAID ? mx_pad_state_of(key, pad) : said);
  if (mx_unlikely(!mx_pad_is_size(size))) return false;
  // The canary of a size is one word, so that there is nothing to be taken apart.
  if (said != MX_SIZE_UNSAID && mx_unlikely(pad != mx_pad_make(key, size))) return false;
  return mx_likely(mx_harden_end_is_intact(page, block, (size_t)size));
}

// Whether canaries stand in front of a page's blocks.
mx_inline bool mx_harden_has_canaries(const mx_page_t* page) {
  return MX_HARDEN && page->bin != 0 && !mx_page_is_huge(page);
}

// Whether p is a live block of a page of blocks, of whichever thread, that nobody wrote over, and
// of how many bytes. False says nothing yet.
mx_inline bool mx_harden_knows(const void* p, size_t* size) {
  if (!MX_PADDING || MX_LIVE_BITS || MX_HARDEN_SLOWLY || !mx_pagemap_is_near(p)) return false;
  const mx_page_t* const page = mx_pagemap_get_near(p);
  if (mx_unlikely(!mx_harden_has_canaries(page))) return false;
  if (mx_unlikely((uintptr_t)p < (uintptr_t)page->start)) return false;  // nothing may be there
  *size = (size_t)mx_pad_state(page, p);
  if (mx_unlikely(*size > page->block_size - MX_PAD)) return false;
  return mx_harden_end_is_intact(page, p, *size);
}

// Sets the size of a block of such a page that was just allocated, as mx_harden_shrink does; false
// says nothing yet.
mx_inline bool mx_harden_shrinks(void* block, size_t size) {
  if (!MX_PADDING || MX_HARDEN_SLOWLY || !mx_pagemap_is_near(block)) return false;
  const mx_page_t* const page = mx_pagemap_get_near(block);
  mx_check(mx_pagemap_is_none(page) || mx_page_is_huge(page) || page->bin != 0);
  if (mx_unlikely(!mx_harden_has_canaries(page))) return false;
  mx_harden_set_size(page, block, size);
  return true;
}

// What came of freeing a block.
typedef enum mx_put_e {
  MX_PUT_DONE,
  MX_PUT_LAST,     // the page has become empty by it
  MX_PUT_REFUSED,  // it takes more, or something is wrong: nothing has happened
} mx_put_t;

// Frees a block of a page of this thread; `is_larger` as for mx_clear_freed, `said` as above.
mx_inline mx_put_t mx_harden_put(mx_page_t* page, void* p, bool is_larger, uint64_t said) {
  mx_block_t* const block = (mx_block_t*)p;
  const bool is_small = (MX_CLEAR_FREED && !is_larger);
  const uint64_t key = mx_place_key(page, block);
  if (!mx_harden_is_sound(page, block, key, is_small, said)) return MX_PUT_REFUSED;
  const uint64_t state = (MX_CLEAR_FREED ? mx_clear_freed(page, block, is_larger) : MX_PAD_FREE);
  if (MX_PADDING) mx_pad_write(block, mx_pad_make(key, state));
  if (MX_LIVE_BITS) mx_live_end(page, block);
  const mx_block_t* const next = (MX_QUARANTINE ? NULL : page->free);
  mx_check(page->used > 0 && mx_page_is_mine(page) && page->free != block);
  if (MX_ENCODE_LINKS) block->next = (uintptr_t)next ^ (uintptr_t)key;
  else mx_block_set_next(page, block, next);
  mx_fence_compiler();  // what waits or is listed is clear, as the child of a fork has it
  if (MX_QUARANTINE) mx_page_wait(page, block, is_small);
  else page->free = block;
  mx_fence_compiler();  // as in mx_page_push
  return --page->used == 0 ? MX_PUT_LAST : MX_PUT_DONE;
}

mx_inline bool mx_harden_is_larger(const mx_page_t* page) {
  return MX_CLEAR_FREED && page->block_size > MX_CLEAR_PLAIN;
}

// Whether a block is cleared by a call: see mx_free_larger.
mx_inline bool mx_harden_takes_call(const mx_page_t* page) {
  return MX_CLEAR_FREED && page->block_size > mx_load_relaxed(&mx_settings.in_place_most);
}

// Before a block of another thread's page is cleared with the slack behind it: from here on the
// page's owner, which may verify it at any time, finds no live block there.
mx_inline void mx_harden_leave(const mx_page_t* page, void* block) {
  mx_check(!mx_page_is_huge(page) && page->bin != 0);
  if (!MX_PADDING) return;
  mx_pad_set(page, block, MX_PAD_LEFT);
  mx_fence_compiler();
}

// Marks a block of another thread's page as freed, which may then be pushed. False as above, and in
// builds with bitmaps.
mx_inline bool mx_harden_put_remote(const mx_page_t* page, void* block) {
  if (MX_LIVE_BITS || !MX_PADDING) return false;
  if (!MX_CLEAR_FREED || mx_unlikely(mx_harden_takes_call(page))) {
    return mx_harden_put_remote_larger(page, block);
  }
  const uint64_t key = mx_place_key(page, block);
  if (!mx_harden_is_sound(page, block, key, true, MX_SIZE_UNSAID)) return false;
  mx_clear_freed(page, block, false);
  mx_pad_write(block, mx_pad_make(key, MX_PAD_GONE));
  return true;
}

// Takes a block of a page for `size` bytes; NULL when it has none that may be given out.
mx_inline mx_block_t* mx_take(mx_page_t* page, size_t size, bool is_small) {
  if (MX_HARDEN && !MX_HARDEN_SLOWLY) {
    return mx_harden_take(page, size, is_small, false, !is_small);
  }
  mx_block_t* const block = mx_page_pop(page);
  if (MX_HARDEN && block != NULL) mx_harden_alloc(page, block, size, false, false);
  mx_check(block == NULL || size + MX_PAD <= page->block_size);
  return block;
}

// The same for bytes that read as zero.
mx_inline mx_block_t* mx_take_zero(mx_page_t* page, size_t size, bool is_small) {
  if (MX_CLEAR_FREED) return mx_harden_take(page, size, is_small, true, !is_small);
  mx_block_t* const block = mx_take(page, size, is_small);
  if (block != NULL) memset(block, 0, MX_PADDING ? size : page->block_size);
  return block;
}

#endif
