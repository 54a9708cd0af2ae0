// SPDX-License-Identifier: MIT
// The checks of the hardened builds and what they say. page/live.h and page/padding.h describe
// what is checked.
#include "harden.h"

#include "../base/hooks.h"
#include "../base/options.h"
#include "../page/ends.h"
#include "../page/shift.h"
#include "alloc.h"

// How many bytes of the slack are as they were.
static size_t count_intact(const uint8_t* end, size_t slack) {
  size_t i = 0;
  while (i < slack && (mx_has_tags() ? mx_tag_load_byte(end + i) : end[i]) == MX_FILL_SLACK) i++;
  return i;
}

static size_t most_of(const mx_page_t* page) { return page->block_size - MX_PAD; }

static size_t size_of(const mx_page_t* page, const void* block) {
  if (!MX_PADDING || mx_page_is_guarded(page)) return page->block_size;
  const bool is_huge = mx_page_is_huge(page);
  const uint64_t state = (is_huge ? mx_pad_state_huge(page) : mx_pad_state_left(page, block));
  if (state > most_of(page)) return 0;
  return is_huge ? most_of(page) - (size_t)state : (size_t)state;
}

// ---- reports -----------------------------------------------------------------------------------

static void report_free(const char* function, const mx_page_t* page, const void* p) {
  if ((uintptr_t)p % sizeof(void*) != 0) {
    mx_error(EINVAL, "%s: invalid (unaligned) pointer: %B\n", function, p);
  } else if (!mx_page_could_be_block(page, p)) {
    mx_error(EINVAL, "%s: invalid pointer: %B (inside a block of size %zu)\n", function, p,
             most_of(page));
  } else {
    mx_error(EAGAIN, "%s: double free detected of block %p with size %zu\n", function, p,
             most_of(page));
  }
  mx_track_wrong(p);
}

void mx_harden_report_pointer(const char* function, const mx_page_t* page, const void* p) {
  const bool is_aligned = ((uintptr_t)p % sizeof(void*) == 0);
  if (page == NULL || !is_aligned) {
    mx_error(EINVAL, is_aligned ? "%s: invalid pointer: %B\n"
                                : "%s: invalid (unaligned) pointer: %B\n", function, p);
  } else if (!mx_page_could_be_block(page, p)) {
    mx_error(EINVAL, "%s: invalid pointer: %B (inside a block of size %zu)\n", function, p,
             most_of(page));
  } else {
    mx_error(EINVAL, "%s: block %B with size %zu was freed\n", function, p, most_of(page));
  }
}

// Eight bytes from byte `at` of a block on, or the last ones of a huge page: those of the block
// where that ends with its mapping.
static const char* bytes_behind(char* text, const mx_page_t* page, const void* block, size_t at) {
  const size_t most = (mx_page_is_apart(page) ? most_of(page) : page->block_size);
  const size_t end = most - (mx_page_is_huge(page) ? 8 : 0);
  return mx_bytes_text(text, (const uint8_t*)block + mx_min(at, end));
}

// The canary behind a block, or the slack in front of it, is not what it was.
static void report_overflow(const mx_page_t* page, const void* block) {
  const size_t known = size_of(page, block);
  const size_t size = (known == 0 ? most_of(page) : known);
  const size_t filled = mx_slack_filled(page->block_size, most_of(page) - size);
  const size_t good = count_intact((const uint8_t*)block + size, filled);
  const size_t at = size + (good < filled || filled == 0 ? good : most_of(page) - size);
  char text[MX_BYTES_TEXT];
  mx_error(EFAULT, "buffer overflow in heap block %B of size %zu: write after %zu bytes; there are "
           "the bytes %s\n", block, size, at, bytes_behind(text, page, block, at));
}

static void report_underflow(const mx_page_t* page, const void* block) {
  char text[MX_BYTES_TEXT];
  mx_error(EFAULT, "buffer underflow of heap block %B (size at most %zu): write before its start, "
           "or past the end of the block in front; there are the bytes %s\n", block, most_of(page),
           mx_bytes_text(text, (const uint8_t*)block - MX_PAD));
}

static void report_used_after_free(const mx_page_t* page, const void* block, size_t at) {
  mx_error(EFAULT, "use after free of heap block %p of size %zu: write at byte %zu\n", block,
           most_of(page), at);
}

// A block on the free list is not as free left it.
static void report_spoiled(const mx_page_t* page, const void* block) {
  if (MX_PADDING && !mx_pad_is_state(mx_pad_state(page, block), page->block_size)) {
    report_underflow(page, block);
  } else {
    mx_error(EFAULT, "corrupted free list: block %p of size %zu is in use\n", block,
             most_of(page));
  }
}

// A block whose own canary was written over: whether it is live by what is left of that.
static bool is_live_underneath(mx_page_t* page, const void* block) {
  report_underflow(page, block);
  mx_pad_mend(page, block);
  return mx_pad_is_size(mx_pad_state(page, block));
}

// Whether a block of this thread's may be freed that does not look like a live one.
static bool is_just_damaged(mx_page_t* page, void* block) {
  const bool could_be = mx_page_could_be_block(page, block);
  const bool is_live = (could_be && mx_page_has_live(page, block));
  if (is_live && mx_page_is_block(page, block) && is_live_underneath(page, block)) return true;
  if (could_be && !mx_page_is_block(page, block)) {
    mx_error(EINVAL, "free: invalid pointer: %p\n", block);
  } else {
    report_free("free", page, block);
  }
  return false;
}

// For the leak report. A block is entered after and taken out before anybody else can have it.
mx_inline void tell_allocated(const void* block) {
  if (MX_DEBUG > 0 && mx_unlikely(mx_hooks.block_allocated != NULL)) {
    mx_hooks.block_allocated(block);
  }
}

mx_inline void tell_freed(const void* block) {
  if (MX_DEBUG > 0 && mx_unlikely(mx_hooks.block_freed != NULL)) mx_hooks.block_freed(block);
}

// ---- allocating --------------------------------------------------------------------------------

// Set when a freed block was cleared instead of filled: the option may change at any time.
static mx_atomic(uint8_t) was_cleared;

static void check_fill(const mx_page_t* page, const void* block) {
  const uint8_t* const p = (const uint8_t*)block;
  const size_t first = sizeof(mx_block_t), end = most_of(page);
  const bool cleared = (first < end && p[first] == 0 && mx_load_relaxed(&was_cleared) != 0);
  const uint8_t fill = (cleared ? 0 : MX_FILL_FREED);
  if (first < end && p[first] == fill && memcmp(p + first, p + first + 1, end - first - 1) == 0) {
    return;  // each byte is as the one before it
  }
  for (size_t i = first; i < end; i++) {
    if (p[i] == fill) continue;
    report_used_after_free(page, block, i);
    return;
  }
}

static void alloc_checked(mx_page_t* page, void* block, size_t size, bool zero, bool is_zero) {
  mx_check(mx_page_is_block(page, block) && size <= most_of(page));
  const uint64_t state = (MX_PADDING ? mx_pad_state(page, block) : MX_PAD_FREE);
  if (MX_LIVE_BITS && !mx_live_begin(page, block)) report_spoiled(page, block);
  else if (!mx_pad_is_free(state)) report_spoiled(page, block);
  if (MX_DEBUG_FILL) check_fill(page, block);
  if (MX_CLEAR_FREED && state == MX_PAD_FREE && !mx_is_clear(block, size, true)) {
    mx_clear_report(page, block);
  }
  if (MX_PADDING) mx_harden_set_size(page, block, size);
  const size_t whole = (MX_PADDING ? size : page->block_size);
  if (zero) memset(block, 0, is_zero ? mx_min(sizeof(mx_block_t), whole) : whole);
  else if (MX_DEBUG_FILL) memset(block, MX_FILL_FRESH, size);
}

void mx_harden_alloc(mx_page_t* page, void* block, size_t size, bool zero, bool is_zero) {
  mx_track_pause();
  mx_track_open(block, page->block_size);
  alloc_checked(page, block, size, zero, is_zero);
  mx_track_resume();
  mx_track_alloc(block, size, page->block_size, zero);
  tell_allocated(block);
}

void mx_harden_alloc_huge(void* block, size_t size, bool zero) {
  if (block == NULL || !MX_PADDING) return;
  mx_page_t* const page = mx_pagemap_get(block);
  const size_t slack = most_of(page) - size;
  mx_check(mx_page_is_huge(page) && size <= most_of(page));
  mx_track_pause();
  mx_slack_fill(page, block, size);
  mx_pad_set_huge(page, slack);
  mx_track_resume();
  if (MX_TRACK) mx_track_no_access(block, mx_page_size(page));
  mx_track_open(block, size);
  mx_track_alloc(block, size, page->block_size, zero);
  tell_allocated(block);
}

// ---- freeing -----------------------------------------------------------------------------------

static bool check_slack(const mx_page_t* page, const void* block) {
  const size_t slack = most_of(page) - size_of(page, block);
  const size_t filled = mx_slack_filled(page->block_size, slack);
  const uint8_t* const end = (const uint8_t*)block + most_of(page) - slack;
  const bool is_whole = (MX_DEBUG == 0 && filled == MX_SLACK_CHECKED);
  const bool is_intact =
      (is_whole ? mx_slack_is_intact(end) : count_intact(end, filled) == filled);
  if (mx_unlikely(!is_intact)) report_overflow(page, block);
  return is_intact;
}

// What lies behind a live block with a good canary: its slack, the canary of the next one.
static void check_behind(const mx_page_t* page, const void* block) {
  check_slack(page, block);
  if (!MX_CHECK_END) return;
  const void* const next = (const uint8_t*)block + page->block_size;
  if (mx_likely(mx_pad_is_state(mx_pad_state(page, next), page->block_size))) return;
  report_overflow(page, block);
  mx_pad_mend(page, next);
}

// The last that is done to a block before anybody else may have it. What it is then.
mx_inline uint64_t clear_freed(const mx_page_t* page, void* block) {
  uint64_t state = MX_PAD_FREE;
  const bool zero = (mx_option(zero_on_free) != 0);
  mx_track_open(block, page->block_size);
  if (zero && MX_DEBUG_FILL) mx_store_relaxed(&was_cleared, (uint8_t)1);
  if (zero || MX_DEBUG_FILL) memset(block, zero ? 0 : MX_FILL_FREED, most_of(page));
  else if (MX_CLEAR_FREED) state = mx_clear_freed(page, block, mx_harden_is_larger(page));
  mx_track_close(block, page->block_size);
  return state;
}

static bool free_checked(mx_page_t* page, void* block) {
  const bool is_live = (!MX_LIVE_BITS || mx_live_test(page, block)) &&
                       (!MX_PADDING || mx_pad_is_size(mx_pad_state(page, block)));
  if (mx_unlikely(!is_live) && !is_just_damaged(page, block)) return false;
  if (MX_PADDING) {
    check_behind(page, block);
  }
  tell_freed(block);
  const uint64_t state = clear_freed(page, block);
  if (MX_PADDING) mx_pad_set(page, block, state);
  if (MX_LIVE_BITS) mx_live_end(page, block);
  return true;
}

bool mx_harden_free(mx_page_t* page, void* p) {
  mx_check(mx_page_is_mine(page) && !mx_page_is_huge(page));
  mx_track_free(p);
  mx_track_pause();
  const bool may = free_checked(page, p);
  mx_track_resume();
  if (!may) return false;
  if (!MX_QUARANTINE) return mx_page_push(page, (mx_block_t*)p);
  mx_check(page->used > 0);
  mx_block_set_next(page, (mx_block_t*)p, NULL);
  mx_page_wait(page, (mx_block_t*)p, false);
  mx_fence_compiler();  // as in mx_page_push
  return --page->used == 0;
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
  if (!MX_PADDING) return true;
  const uint64_t state = mx_pad_state(page, block);
  if (mx_unlikely(!mx_pad_is_size(state))) {
    const bool is_freed = (mx_pad_is_free(state) || mx_pad_is_gone(state));
    if (!is_freed && mx_page_offset(page, block) >= mx_page_carved(page)) {
      mx_error(EINVAL, "free: invalid pointer: %p\n", block);
      return false;
    }
    if (!is_freed && is_live_underneath(page, block)) return true;
    report_free("free", page, block);
    return false;
  }
  check_behind(page, block);
  return true;
}

bool mx_harden_free_remote(mx_page_t* page, void* block) {
  mx_check(!mx_page_is_huge(page) && !mx_page_is_zero_sized(page));
  mx_track_free(block);
  mx_track_pause();
  const bool may = free_remote_checked(page, block);
  if (may) {
    tell_freed(block);
    mx_harden_leave(page, block);
    const uint64_t state = clear_freed(page, block);
    // Of two threads that free it in the same nanoseconds both may get here; the owner will find it
    // twice. An exchange would cost as much as all the rest.
    if (MX_PADDING) mx_pad_set(page, block, state == MX_PAD_FREE ? MX_PAD_GONE : MX_PAD_LEFT);
  }
  mx_track_resume();
  return may;
}

bool mx_harden_put_remote_larger(const mx_page_t* page, void* block) {
  mx_check(MX_PADDING && !mx_page_is_huge(page) && !mx_page_is_zero_sized(page));
  const uint64_t key = mx_place_key(page, block);
  if (!mx_harden_is_sound(page, block, key, false, MX_SIZE_UNSAID)) return false;
  const bool is_larger = mx_harden_is_larger(page);
  if (is_larger) mx_harden_leave(page, block);
  const bool is_clear =
      !MX_CLEAR_FREED || mx_clear_freed(page, block, is_larger) == MX_PAD_FREE;
  mx_pad_set(page, block, is_clear ? MX_PAD_GONE : MX_PAD_LEFT);
  return true;
}

bool mx_harden_check_huge(mx_page_t* page, const void* block) {
  mx_check(mx_page_is_huge(page) && block == page->start);
  if (!MX_PADDING || mx_page_is_guarded(page)) return true;
  if (mx_pad_is_size(mx_pad_state_huge(page))) return check_slack(page, block);
  if (mx_page_is_apart(page)) report_underflow(page, block);  // its canary lies in front
  else report_overflow(page, block);
  return false;
}

void mx_harden_check(mx_page_t* page, const void* block) {
  if (!MX_PADDING || mx_page_is_zero_sized(page)) return;
  mx_track_pause();
  if (mx_page_is_huge(page)) {
    mx_harden_check_huge(page, block);
  } else if (mx_pad_is_size(mx_pad_state(page, block)) || is_live_underneath(page, block)) {
    check_behind(page, block);
  }
  mx_track_resume();
}

void mx_harden_free_huge(mx_page_t* page, void* block) {
  mx_check(mx_page_is_huge(page) && block == page->start);
  if (mx_page_is_guarded(page)) return;
  mx_track_free(block);
  mx_track_pause();
  // A block that is freed already is reported where its mark is taken.
  if ((mx_load_relaxed(&page->owner) & MX_OWNER_HUGE) != 0) {
    mx_harden_check_huge(page, block);
    tell_freed(block);
  }
  mx_track_resume();
}

// ---- sizes -------------------------------------------------------------------------------------

size_t mx_harden_usable(const mx_page_t* page, const void* block) {
  return size_of(page, block);
}

// A block that is alone in its page and keeps its place there: one of a bin's size, which the
// profiler has a note of, or a large one that ends with its mapping.
static bool stays_apart(const mx_page_t* page) {
  if (!mx_page_is_huge(page) || mx_page_is_guarded(page)) return false;
  return page->block_size <= MX_BIN_MAX_SIZE || mx_page_is_apart(page);
}

static void set_size_apart(mx_page_t* page, void* block, size_t size) {
  mx_check(stays_apart(page) && size <= most_of(page));
  mx_track_pause();
  mx_slack_fill(page, block, size);
  mx_pad_set_huge(page, most_of(page) - size);
  mx_track_resume();
}

void mx_harden_shrink(void* block, size_t size) {
  mx_check(block != NULL);
  if (!MX_PADDING) return;
  mx_page_t* const page = mx_pagemap_get(block);
  if (mx_page_is_guarded(page)) page->block_size = size;  // sized frees ask for that
  if (stays_apart(page)) set_size_apart(page, block, size);
  if (mx_page_is_huge(page)) return;
  mx_track_pause();
  const size_t old = size_of(page, block);
  mx_check(mx_page_is_mine(page) || MX_HARDEN_SLOWLY == 0 || old <= most_of(page));
  mx_track_open((uint8_t*)block + size, page->block_size - size);
  mx_harden_set_size(page, block, size);
  mx_track_close((uint8_t*)block + size, page->block_size - size);
  mx_track_resume();
  if (MX_TRACK && size < old) mx_track_no_access((uint8_t*)block + size, old - size);
}

bool mx_harden_resize(mx_page_t* page, void* block, size_t size, bool zero, bool must) {
  if (!MX_PADDING || MX_HARDEN_SLOWLY) return false;
  const bool is_apart = stays_apart(page);
  if ((mx_page_is_huge(page) && !is_apart) || mx_page_is_zero_sized(page)) return false;
  const size_t most = most_of(page);
  if (size > most || (!must && size < most / 2)) return false;
  if (is_apart && !mx_pad_is_size(most - size)) return false;
  if (!mx_page_could_be_block(page, block)) return false;
  if (!is_apart && mx_unlikely(!mx_pad_is_size(mx_pad_state(page, block)))) return false;
  const size_t old = size_of(page, block);
  mx_check(old <= most && mx_page_offset(page, block) < mx_page_span(page));
  if (is_apart) mx_harden_check_huge(page, block);
  else check_behind(page, block);
  // In this order: the page's owner may verify it meanwhile, and what was slack is no longer then.
  if (is_apart) set_size_apart(page, block, size);
  else mx_harden_set_size(page, block, size);
  mx_fence_compiler();
  if (zero && size > old) memset((uint8_t*)block + old, 0, size - old);
  return true;
}

bool mx_harden_check_sized(const char* function, const void* block, size_t size, size_t align) {
  if (!MX_CHECK_SIZED || block == NULL) return true;
  const mx_page_t* const page = mx_pagemap_get(block);
  // What is no live block is reported by the free that follows.
  if (mx_pagemap_is_none(page) || mx_page_is_zero_sized(page)) return true;
  if (align > 0 && !mx_is_aligned(block, align)) {
    mx_error(EINVAL, "%s: block %B is not aligned to %zu bytes\n", function, block, align);
    return false;
  }
  const void* const start = mx_page_block_of(page, block);
  if (start == NULL || (!mx_page_is_huge(page) && !mx_page_has_live(page, start))) return true;
  const size_t has = size_of(page, start) - ((uintptr_t)block - (uintptr_t)start);
  // What realloc made 0 bytes has one, which can be read.
  if (size == SIZE_MAX || size == has || (size == 0 && has == 1)) return true;
  mx_error(EINVAL, "%s: block %B has size %zu, not %zu\n", function, block, has, size);
  return false;
}
