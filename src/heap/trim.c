// SPDX-License-Identifier: MIT
// What threads give back of pages in use as they go. There is memory of two kinds:
//
//   slack  what lies behind the blocks that were carved of a current page. Its thread takes blocks
//          from it without asking anybody, so only that thread knows a moment for it: a round of
//          housekeeping.
//   holes  OS pages of free blocks in pages at rest, whoever owns them (see page/holes.h). A thread
//          that makes a new page makes some, in a few pages at a time; and one that collects since
//          memory has grown does so in its own pages of large blocks that it does not use.
//
// Whatever goes back and is needed after all costs a page fault: most of the rest is about that.
//
// The walk over all pages, on request and in the background: a page that is in use all the time
// would fill its holes at once, so the background asks for idle pages, those that look as they did
// at the walk before. What was seen of a page lies in the word `seen` of its first slice in the
// arena.
#include "../base/options.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../os/thread.h"
#include "../page/holes.h"
#include "adopt.h"
#include "heap_record.h"
#include "huge_cache.h"
#include "transfer.h"
#include "trim.h"

#define SLACK_LEAST (16 * MX_KIB)  // slack of a page that is worth a call of the OS
#define SLACK_WAIT_MOST 63         // rounds
#define TRIM_SHARE 8             // a walk begins when this part more is committed than at the least
#define TRIM_LEAST (8 * MX_MIB)  // since the last one, and at least this much
#define TRIM_PAGES 2             // pages in which one step makes holes
#define TRIM_LOOKS 256           // and pages that it looks at
#define REFAULT_MSECS 10000      // between two halvings of the refaults
#define IDLE_FREE_LEAST (64 * MX_KIB)  // in free blocks of a page that are worth it
#define IDLE_WAIT_MOST 7         // 4 to the power of that, times 2: passes
#define IDLE_AGE_MSECS 8000      // each time it is a quarter of that

// Some programs want to keep what they have.
static bool may_give_back(void) {
  return mx_option(purge_holes) != 0 && mx_option(purge_delay) >= 0;
}

static bool may_give_back_of(const mx_arena_t* arena) {
  return mx_arena_is_discardable(arena) && may_give_back();
}

mx_unsynchronised static bool is_as_seen(mx_arena_t* arena, const mx_page_t* page) {
  const uint32_t now = mx_holes_signature(page);
  // Of a page that is made anew just now it is what it was: its record belongs to the slice.
  const size_t index = mx_peek_uint32(&page->slice_index);
  mx_check(index < arena->slices);
  return mx_exchange_relaxed(&arena->seen[index], now) == now;
}

// ---- slack -------------------------------------------------------------------------------------

// Used memory that becomes a page is resident as a whole, though few blocks of most sizes are ever
// asked for. What a page did not need for a round goes back, unless it seems to need it all. Fresh
// memory is present only as a large OS page, which stays whole.
//
// A bin whose pages lose their slack again and again gets it back each time with page faults, so
// the next one waits twice as long, and half as long when some time has passed.
void mx_theap_expect_slack(mx_theap_t* theap, const mx_page_t* page) {
  mx_theap_trimming_t* const trimming = &theap->trimming;
  if (!mx_bits_test(page->arena->dirty, page->slice_index)) return;
  mx_set_bit(trimming->slack, page->bin);
  trimming->slack_left[page->bin] = (uint8_t)(trimming->slack_wait[page->bin] + 1);
}

// Whether there was any that is worth it.
static bool discard_slack(const mx_page_t* page) {
  mx_arena_t* const arena = page->arena;
  if (!may_give_back_of(arena)) return false;
  uint8_t* const end = mx_page_end(page);
  uint8_t* const carved = page->start + page->capacity * page->block_size;
  uint8_t* const start = (uint8_t*)mx_align_up((uintptr_t)carved, mx_facts.os_page);
  if (start >= end) return false;
  mx_check(page->capacity <= page->reserved);
  const size_t size = (size_t)(end - start);
  const size_t present = mx_bits_count(arena->present, mx_arena_bit_of(arena, start),
                                       size / mx_facts.os_page);
  if (present * mx_facts.os_page < SLACK_LEAST) return false;
  mx_arena_discard(arena, start, size);
  return true;
}

static void wait_longer(mx_theap_trimming_t* trimming, size_t bin) {
  const size_t twice = 2 * (size_t)trimming->slack_wait[bin] + 1;
  trimming->slack_wait[bin] = (uint8_t)mx_min(twice, SLACK_WAIT_MOST);
}

void mx_theap_look_for_slack(mx_theap_t* theap, const mx_page_t* page) {
  mx_theap_trimming_t* const trimming = &theap->trimming;
  const size_t bin = page->bin;
  mx_check(theap->bins.current[bin] == page);
  const bool is_dense = (page->capacity > page->reserved / 2);
  if (!is_dense && trimming->slack_left[bin] > 0) {
    trimming->slack_left[bin]--;
    return;
  }
  mx_clear_bit(trimming->slack, bin);
  if (!is_dense && discard_slack(page)) wait_longer(trimming, bin);
}

void mx_theap_age_slack(mx_theap_t* theap) {
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) theap->trimming.slack_wait[bin] /= 2;
}

// ---- idle pages ---------------------------------------------------------------------------------

// In how many OS pages a block of a page may lie: the first one begins as the size is aligned.
static size_t most_os_pages(size_t block_size) {
  const size_t os_page = mx_facts.os_page;
  const size_t align = mx_min(block_size & (0 - block_size), os_page);
  return (block_size + 2 * os_page - align - 1) / os_page;
}

// A program whose large blocks become smaller and smaller, or larger, leaves a page of free ones in
// each bin that it passes. A bin that gave such memory back and needs memory again waits for four
// times as many passes as the time before, also if that is for another page. So what a size costs
// that is needed after each so many passes is bounded by time, however fast they follow each other.
bool mx_theap_is_idle(const mx_theap_t* theap, const mx_page_t* page) {
  const size_t bin = page->bin;
  if (bin < MX_LARGER_BIN || mx_has_bit(theap->trimming.slack, bin)) return false;
  mx_check(bin < MX_BIN_HUGE);
  const size_t kept = page->used * most_os_pages(page->block_size);
  if (mx_holes_present(page) < kept + IDLE_FREE_LEAST / mx_facts.os_page) return false;
  if (!may_give_back_of(page->arena) || !is_as_seen(page->arena, page)) return false;
  return theap->trimming.idle_left[bin - MX_LARGER_BIN] == 0;
}

static void wait_for_passes(mx_theap_trimming_t* trimming, size_t i) {
  mx_check(i < MX_LARGER_BINS && trimming->idle_wait[i] <= IDLE_WAIT_MOST);
  trimming->idle_left[i] = (uint16_t)(2u << 2 * trimming->idle_wait[i]);
}

void mx_theap_give_idle(mx_theap_t* theap, mx_page_t* page) {
  mx_check(page->bin >= MX_LARGER_BIN && page->bin < MX_BIN_HUGE && mx_page_theap(page) == theap);
  const size_t i = page->bin - MX_LARGER_BIN;
  if (mx_page_make_holes(page, true) == 0) {
    wait_for_passes(&theap->trimming, i);  // somebody else is at it, or it is locked
    return;
  }
  // The same state may come back when all is in use once more.
  mx_store_relaxed(&page->arena->seen[page->slice_index], (uint32_t)0);
  mx_set_bit(&theap->trimming.idle_gave, i);
}

void mx_theap_takes_memory(mx_theap_t* theap, size_t bin, bool fills_holes) {
  mx_check(bin > 0 && bin < MX_BIN_HUGE);
  if (bin < MX_LARGER_BIN) return;
  mx_theap_trimming_t* const trimming = &theap->trimming;
  const size_t i = bin - MX_LARGER_BIN;
  const bool gave = mx_has_bit(&trimming->idle_gave, i);
  if (!gave && !fills_holes) return;
  if (gave && trimming->idle_wait[i] < IDLE_WAIT_MOST) trimming->idle_wait[i]++;
  mx_clear_bit(&trimming->idle_gave, i);
  wait_for_passes(trimming, i);
}

void mx_theap_begin_idle(mx_theap_t* theap, uint32_t now) {
  mx_theap_trimming_t* const trimming = &theap->trimming;
  const uint32_t ages = (now - trimming->idle_aged) / IDLE_AGE_MSECS;
  trimming->idle_aged += ages * IDLE_AGE_MSECS;
  for (size_t i = 0; i < MX_LARGER_BINS; i++) {
    if (trimming->idle_left[i] > 0) trimming->idle_left[i]--;
    if (ages == 0) continue;
    const size_t less = mx_min(ages, IDLE_WAIT_MOST), wait = trimming->idle_wait[i];
    trimming->idle_left[i] = (uint16_t)(trimming->idle_left[i] >> 2 * less);
    trimming->idle_wait[i] = (uint8_t)(wait - mx_min(wait, less));
  }
}

// ---- holes -------------------------------------------------------------------------------------

size_t mx_page_make_holes(mx_page_t* page, bool is_owner) {
  if (!mx_holes_begin()) return 0;
  const mx_holes_t made = mx_holes_make(page, is_owner);
  if (made.is_gone) mx_page_release(page);
  mx_holes_end();
  return made.bytes;
}

// Twice the bytes of holes that were filled again lately: so much more may wait.
static size_t trim_refaults(mx_subproc_t* subproc) {
  const size_t filled = mx_holes_take_filled();
  if (filled == 0 && subproc->trim.refaults == 0) return 0;
  const uint64_t now = mx_os_clock_msecs();
  if (subproc->trim.refaults == 0) subproc->trim.refaults_until = now + REFAULT_MSECS;
  subproc->trim.refaults += 2 * filled;
  if (now >= subproc->trim.refaults_until) {
    subproc->trim.refaults /= 2;
    subproc->trim.refaults_until = now + REFAULT_MSECS;
  }
  return subproc->trim.refaults;
}

static void trim_page(mx_page_t* page, int* budget) {
  // A page that rests has been made: what the promise depends on is there.
  if ((mx_load_acquire(&page->lend) & MX_PAGE_RESTS) == 0 || !mx_holes_promise(page)) return;
  mx_page_make_holes(page, mx_page_is_mine(page));
  (*budget)--;
}

// False: the walk is over.
static bool trim_step(mx_subproc_t* subproc) {
  int budget = TRIM_PAGES;
  for (int looks = TRIM_LOOKS; looks > 0 && budget > 0; looks--) {
    mx_page_t* const page =
        mx_page_next_of(&subproc->arenas, &subproc->trim.arena, &subproc->trim.slice);
    if (page == NULL) return false;
    trim_page(page, &budget);
  }
  return true;
}

// When what is committed has grown by a share since the last walk over all pages, the next few of
// those that are mostly free give back what they do not need. A walk that is made in such steps
// costs a program little that fills its pages, and nothing one that does not grow. What was filled
// again after a walk may wait from then on, so that no loop purges and faults for ever.
void mx_subproc_trim(mx_subproc_t* subproc) {
  const int64_t now = mx_load_relaxed(&mx_process_counters.committed.current);
  const size_t committed = (now > 0 ? (size_t)now : 0);
  const size_t from = mx_load_relaxed(&subproc->trim.from);
  if (committed < from) mx_store_relaxed(&subproc->trim.from, committed);
  const size_t most = from + mx_max(from / TRIM_SHARE, TRIM_LEAST);
  if (mx_likely(committed < most)) return;
  // With a background thread that is its work, and the refaults are its, too.
  if (!MX_HOLES || !may_give_back()) return;
  if (mx_load_relaxed(&mx_arenas_background) != NULL) return;
  if (mx_exchange_acq_rel(&subproc->trim.busy, 1) != 0) return;
  if (committed >= most + trim_refaults(subproc) && !trim_step(subproc)) {
    mx_store_relaxed(&subproc->trim.from, committed);
    subproc->trim.arena = subproc->trim.slice = 0;
  }
  mx_store_release(&subproc->trim.busy, 0);
}

// ---- the walk over all pages -------------------------------------------------------------------

size_t mx_subproc_make_holes(mx_subproc_t* subproc, bool idle_only, bool* has_changed) {
  size_t bytes = 0, item = 0, index = 0;
  mx_heap_release_cached(subproc);
  mx_huge_cache_flush(true);
  mx_transfer_flush(true);
  for (mx_page_t* page; (page = mx_page_next_of(&subproc->arenas, &item, &index)) != NULL;) {
    mx_arena_t* const arena = mx_arena_at(&subproc->arenas, item);
    if (arena->is_pinned || (mx_load_acquire(&page->lend) & MX_PAGE_RESTS) == 0) continue;
    if (idle_only && !is_as_seen(arena, page)) *has_changed = true;
    else bytes += mx_page_make_holes(page, mx_page_is_mine(page));
  }
  return bytes;
}
