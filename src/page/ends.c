// SPDX-License-Identifier: MIT
// Verifying the blocks of a page: see ends.h.
#include "ends.h"

#include "../base/fmt.h"
#include "../base/hooks.h"
#include "../base/options.h"
#include "../os/os.h"
#include "clear.h"
#include "delay.h"
#include "slack.h"

bool mx_ends_are_torn;

const char* mx_bytes_text(char* buf, const void* p) {
  uint8_t bytes[8];
  const uint64_t word = (mx_has_tags() ? mx_tag_load(p) : 0);
  if (mx_has_tags()) p = &word;
  memcpy(bytes, p, sizeof(bytes));
  for (size_t i = 0; i < sizeof(bytes); i++) {
    mx_format(buf + 3 * i, 4, i + 1 < sizeof(bytes) ? "%02x " : "%02x", bytes[i]);
  }
  return buf;
}

static const uint8_t* block_number(const mx_page_t* page, size_t i) {
  return page->start + i * page->block_size;
}

// The canary between block i - 1 and block i is not one of this place.
static mx_damage_t damage_between(const mx_page_t* page, size_t i) {
  mx_damage_t damage;
  const size_t most = page->block_size - MX_PAD;
  const uint8_t* const block = block_number(page, i);
  const uint8_t* const front = block - page->block_size;
  const uint64_t state = (i == 0 ? MX_PAD_FREE : mx_pad_state(page, front));
  mx_bytes_text(damage.bytes, block - MX_PAD);
  damage.block = block;
  damage.front = (state <= most ? front : NULL);
  damage.size = (state <= most ? (size_t)state : most);
  return damage;
}

void mx_damage_report(const mx_damage_t* damage) {
  if (damage->front != NULL) {
    mx_error(EFAULT, "buffer overflow in heap block %p of size %zu: write past its end, or before "
             "the start of block %p; between them are the bytes %s\n", damage->front,
             damage->size, damage->block, damage->bytes);
  } else {
    mx_error(EFAULT, "buffer underflow of heap block %p (size at most %zu): write before its "
             "start, or to the freed block in front; there are the bytes %s\n", damage->block,
             damage->size, damage->bytes);
  }
}

static void report_between(const mx_page_t* page, size_t i) {
  const mx_damage_t damage = damage_between(page, i);
  mx_pad_mend(page, damage.block);  // a handler may be given the block
  mx_damage_report(&damage);
}

static bool has_slack_of(const uint8_t* end, size_t filled) {
  return filled == 0 || mx_slack_is_intact(end);
}

// A block that another thread frees or resizes at this moment is no longer what it was; its state
// says so when all that was done to it is seen.
static bool is_slack_sound(const mx_page_t* page, const uint8_t* block, size_t size) {
  if (MX_DEBUG > 0 || mx_ends_are_torn) return true;
  const size_t filled = mx_slack_filled(page->block_size, page->block_size - MX_PAD - size);
  if (mx_likely(has_slack_of(block + size, filled))) return true;
  return !mx_os_barrier_all() || mx_pad_state(page, block) != size ||
         has_slack_of(block + size, filled);
}

static void report_slack(const uint8_t* block, size_t size) {
  char text[MX_BYTES_TEXT];
  mx_error(EFAULT, "buffer overflow in heap block %p of size %zu: behind it are the bytes %s\n",
           (const void*)block, size, mx_bytes_text(text, block + size));
}

// Whether a free block's link leads to a place in its page, or to nothing. Asked by address, since
// along the list it would be one cache miss after the other.
static bool is_link_sound(const mx_page_t* page, const uint8_t* p) {
  const mx_block_t* const block = (const mx_block_t*)(const void*)p;
  if (!MX_ENCODE_LINKS) return true;
  const mx_block_t* const next = mx_block_next(page, block);
  if (next == NULL) return mx_block_is_last(page, block);
  if (mx_page_is_block(page, next)) return true;
  mx_freelist_corrupted(page, block, (uintptr_t)next);
  return false;
}

// Whether a free block is as it was cleared. What a thread that is gone was clearing is not.
static bool is_free_sound(const mx_page_t* page, const uint8_t* block) {
  if (!MX_CLEAR_FREED || mx_ends_are_torn) return true;
  return mx_is_clear(block, page->block_size - MX_PAD, true) || !mx_clear_report(page, block);
}

bool mx_page_verify(const mx_page_t* page) {
  if (!MX_PADDING || MX_TRACK != 0 || page->bin == 0) return true;
  mx_check(!mx_page_is_huge(page));
  bool is_sound = true;
  const size_t count = page->capacity, size = page->block_size, most = size - MX_PAD;
  const bool fills_any = (MX_DEBUG > 0 || size > MX_SMALL_MAX);
  const uint8_t* block = page->start;
  for (size_t i = 0; count > 0 && i <= count; i++, block += size) {
    const uint64_t state = mx_pad_state(page, block);
    if (mx_likely(!fills_any && mx_slack_is_short(size, state))) continue;
    if (mx_unlikely(!mx_pad_is_state(state, size))) {
      report_between(page, i);
      is_sound = false;
    } else if (i < count && state <= most && !is_slack_sound(page, block, (size_t)state)) {
      report_slack(block, (size_t)state);
      is_sound = false;
    } else if (i < count && mx_pad_is_free(state)) {
      const bool has_link = is_link_sound(page, block);
      is_sound = (state != MX_PAD_FREE || is_free_sound(page, block)) && has_link && is_sound;
    }
  }
  return is_sound;
}

mx_damage_t mx_page_damage_of_lent(const mx_page_t* page) {
  mx_damage_t none;
  memset(&none, 0, sizeof(none));
  if (!MX_PADDING || MX_TRACK != 0 || page->bin == 0 || page->capacity == 0) return none;
  mx_check(mx_page_is_lent(page));
  for (size_t i = 0; i <= page->capacity; i++) {
    const uint8_t* const block = block_number(page, i);
    if (mx_likely(mx_pad_is_state(mx_pad_state(page, block), page->block_size))) continue;
    const mx_damage_t damage = damage_between(page, i);
    mx_pad_mend(page, block);
    return damage;
  }
  return none;
}
