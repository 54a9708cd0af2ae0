// SPDX-License-Identifier: MIT
// The transfer cache: blocks above MX_SMALL_MAX that a thread freed into another one's page go on
// to the next thread that would take new memory for one of their size, instead of waiting in the
// page for their owner. Threads that share what they allocate (a cache behind a lock) else have
// as many blocks of a size each as they ever had live, though others free them all.
//
// To its page such a block is in use all the time. Few are kept: what a bin may have, and a share
// of what is committed. When these are reached a free looks at three words and writes none of them,
// but for one now and then that says so (see common.c); a thread that finds the lock taken does
// without. Only blocks of the main heap are kept, and of pages that a thread has. They go to their
// pages when they were not needed for a while, when a thread ends, and whenever memory is given
// back.
//
// Where threads of many processors want the lock at once they share several caches, by their
// number. What lies in one is not found by the others, so there is one more only when a lock was
// often taken as others wanted it; it stays.
#include <string.h>

#include "../mem/vmem.h"
#include "../os/os.h"
#include "../os/thread.h"
#include "../page/remote.h"
#include "adopt.h"
#include "transfer.h"

#define SHARE 8               // of what is committed, divided by the caches, and
#define LEAST (512 * MX_KIB)  // at least of so much, in all bins of one
#define IDLE_MSECS 250        // between two looks at what is not used
#define OVERFLOW_LOOKS 2      // up to which a bin counts as one that more is passed on of
#define CACHES 16
#define THREADS 8             // that share one
#define CROWD_USES 1024       // of a lock, of which no more than
#define CROWD_SHARE 4         // this part may keep others from it

typedef struct mx_transfers_s {
  mx_aligned(MX_CACHE_LINE) mx_atomic(size_t) bytes;  // hints without the lock, as are the counts
  mx_atomic(uint32_t) counts[MX_BIN_COUNT];
  mx_block_t* first[MX_BIN_COUNT];
  uint32_t least[MX_BIN_COUNT];  // so many were there all the time since the last look
} mx_transfers_t;

// Nothing is taken while one is held. Apart from the caches, most of which are never touched: a
// fork of a process with threads takes all locks.
typedef struct transfer_lock_s {
  mx_aligned(MX_CACHE_LINE) mx_lock_t lock;
  mx_atomic(bool) was_wanted;  // since it was taken
  uint32_t uses, crowded;      // under it: all, and of the latest those that kept others from it
} transfer_lock_t;

mx_at_start mx_atomic(bool) mx_has_transfers;
size_t mx_transfer_most = 512 * MX_KIB;
static mx_transfers_t transfers[CACHES];
static mx_at_start transfer_lock_t transfer_locks[CACHES];
static mx_atomic(uint64_t) transfers_seen;  // when what is not used was looked for, clock in ms
static mx_atomic(size_t) caches_more;       // than one

static mx_lock_t* lock_of(const mx_transfers_t* t) { return &transfer_locks[t - transfers].lock; }

static bool try_cache(const mx_transfers_t* t) {
  transfer_lock_t* const l = &transfer_locks[t - transfers];
  if (!mx_lock_try(lock_of(t))) {
    if (!mx_load_relaxed(&l->was_wanted)) mx_store_relaxed(&l->was_wanted, true);
    return false;
  }
  if (mx_load_relaxed(&l->was_wanted)) {
    mx_store_relaxed(&l->was_wanted, false);
    l->crowded++;
  }
  if (++l->uses % CROWD_USES != 0) return true;
  if (l->crowded > CROWD_USES / CROWD_SHARE) mx_add_relaxed(&caches_more, (size_t)1);
  l->crowded = 0;
  return true;
}

static size_t caches_now(void) {
  const size_t more = mx_load_relaxed(&caches_more);
  if (mx_likely(more == 0)) return 1;
  const int64_t threads = mx_load_relaxed(&mx_subproc_main.main_heap.counters.threads.current);
  return threads < 2 * THREADS ? 1 : mx_min((size_t)threads / THREADS, mx_min(1 + more, CACHES));
}

// A thread that has no theap yet has the first one.
static mx_transfers_t* transfers_of(const mx_theap_t* theap, size_t caches) {
  mx_check(caches > 0 && caches <= CACHES);
  const mx_theap_t* const first = theap->first;
  return &transfers[caches == 1 || first == NULL ? 0 : first->thread.number % caches];
}

static bool has_transfer_room(const mx_transfers_t* t, size_t bin, size_t size, size_t caches) {
  const size_t count = mx_load_relaxed(&t->counts[bin]);
  const int64_t now = mx_load_relaxed(&mx_process_counters.committed.current);
  const size_t share = (size_t)mx_max(now / SHARE, (int64_t)LEAST) / caches;
  return (count + 1) * size <= mx_transfer_most && mx_load_relaxed(&t->bytes) + size <= share;
}

static void count_transfers(mx_transfers_t* t, size_t bin, size_t change, size_t size) {
  mx_check(mx_lock_is_mine(lock_of(t)));
  const uint32_t count = mx_load_relaxed(&t->counts[bin]) + (uint32_t)change;
  mx_store_relaxed(&t->counts[bin], count);
  mx_check(change == 1 || count < count - (uint32_t)change);
  mx_check(change == 1 || mx_load_relaxed(&t->bytes) >= (0 - change) * size);
  if (count < t->least[bin]) t->least[bin] = count;
  mx_store_relaxed(&t->bytes, mx_load_relaxed(&t->bytes) + change * size);
}

// Of the main heap, as all that is kept. Blocks of no more than 8 KiB are not worth a page that
// no thread has.
static void note_overflow(size_t bin) {
  if (bin < MX_LARGER_BIN || mx_transfer_most == 0) return;
  mx_atomic(uint8_t)* const looks = &mx_subproc_main.passed_on[bin];
  if (mx_load_relaxed(looks) != OVERFLOW_LOOKS) mx_store_relaxed(looks, OVERFLOW_LOOKS);
}

static void age_overflows(void) {
  for (size_t bin = MX_LARGER_BIN; bin < MX_BIN_HUGE; bin++) {
    mx_atomic(uint8_t)* const looks = &mx_subproc_main.passed_on[bin];
    const uint8_t left = mx_load_relaxed(looks);
    if (left > 0) mx_store_relaxed(looks, (uint8_t)(left - 1));
  }
}

bool mx_transfer_put(const mx_theap_t* theap, mx_page_t* page, mx_block_t* block) {
  if (!mx_page_has_thread(page)) return false;
  const size_t bin = page->bin, size = page->block_size, caches = caches_now();
  mx_check(bin > MX_SMALL_BINS && bin < MX_BIN_HUGE && mx_page_could_be_block(page, block));
  mx_transfers_t* const t = transfers_of(theap, caches);
  if (mx_page_heap(page) != &mx_subproc_main.main_heap) return false;
  if (!has_transfer_room(t, bin, size, caches)) {
    note_overflow(bin);
    return false;
  }
  if (mx_heap_node(&mx_subproc_main.main_heap) >= 0) return false;
  mx_call_enter();
  const bool is_locked = try_cache(t);
  mx_block_t* const first = (is_locked ? t->first[bin] : NULL);
  mx_check(!is_locked || first != NULL || mx_load_relaxed(&t->counts[bin]) == 0);
  if (is_locked && first != block) {
    block->next = (uintptr_t)first;
    t->first[bin] = block;
    count_transfers(t, bin, 1, size);
    if (!mx_load_relaxed(&mx_has_transfers)) mx_store_relaxed(&mx_has_transfers, true);
  }
  if (is_locked) mx_lock_release(lock_of(t));
  if (mx_unlikely(first == block)) mx_remote_refuse(page, block);
  mx_call_leave();
  return is_locked;
}

bool mx_transfer_has(const mx_theap_t* theap, size_t bin) {
  return mx_load_relaxed(&transfers_of(theap, caches_now())->counts[bin]) > 0;
}

mx_block_t* mx_transfer_take(const mx_theap_t* theap, size_t bin) {
  mx_transfers_t* const t = transfers_of(theap, caches_now());
  if (theap->heap != &mx_subproc_main.main_heap || mx_heap_node(theap->heap) >= 0) return NULL;
  if (!try_cache(t)) return NULL;
  mx_block_t* const block = t->first[bin];
  mx_check(block != NULL || mx_load_relaxed(&t->counts[bin]) == 0);
  if (block != NULL) {
    t->first[bin] = (mx_block_t*)block->next;
    count_transfers(t, bin, (size_t)-1, mx_bin_size(bin));
  }
  mx_lock_release(lock_of(t));
  return block;
}

size_t mx_transfer_count(size_t bin) {
  size_t count = 0;
  for (size_t i = 0; i < CACHES; i++) count += mx_load_relaxed(&transfers[i].counts[bin]);
  return count;
}

// ---- giving back -------------------------------------------------------------------------------

static void give_to_page(mx_block_t* block) {
  mx_page_t* const page = mx_pagemap_get(block);
  if (!mx_remote_push(page, block)) return;
  mx_check(!mx_page_is_huge(page) && (mx_load_relaxed(&page->owner) & ~MX_OWNER_TAGS) == 0);
  mx_page_own_again(page);
  mx_page_collect(page);
  mx_page_abandon(page);
}

// The list ends, or the count does: of a block that was freed twice there may be a ring.
static void give_to_pages(mx_block_t* block, uint32_t count) {
  for (mx_block_t* next; count > 0 && block != NULL; block = next, count--) {
    next = (mx_block_t*)block->next;
    give_to_page(block);
  }
}

// ---- spare blocks at the end of their thread ---------------------------------------------------

mx_block_t* mx_spare_cut(mx_theap_t* theap, mx_spare_slot_t* slot, uint32_t* count) {
  mx_block_t* const first = slot->waiting;
  *count = slot->count;
  mx_check(first != NULL || *count == 0);
  slot->waiting = NULL;
  slot->count = 0;
  slot->most /= 2;
  mx_check(theap->spares.bytes >= *count * mx_bin_size(slot->bin));
  theap->spares.bytes -= *count * (uint32_t)mx_bin_size(slot->bin);
  return first;
}

void mx_spare_give_up(mx_theap_t* theap) {
  if (!MX_TRANSFERS || theap->spares.bytes == 0) return;
  mx_call_enter();
  for (size_t i = 0; i < MX_SPARE_SLOTS; i++) {
    uint32_t count = 0;
    mx_block_t* const first = mx_spare_cut(theap, &theap->spares.slots[i], &count);
    give_to_pages(first, count);
  }
  mx_call_leave();
}

// ---- giving back what is kept ------------------------------------------------------------------

// Takes what was there all the time since the last look, with force all: the end of the list.
static mx_block_t* cut_off(mx_transfers_t* t, size_t bin, bool force) {
  const uint32_t count = mx_load_relaxed(&t->counts[bin]);
  const uint32_t goes = (force ? count : t->least[bin]);
  mx_check(mx_lock_is_mine(lock_of(t)) && t->least[bin] <= count);
  t->least[bin] = count - goes;
  if (goes == 0) return NULL;  // and no block is looked at
  mx_block_t* before = NULL;
  mx_block_t* first = t->first[bin];
  for (uint32_t i = goes; i < count; i++) {
    before = first;
    first = (mx_block_t*)first->next;
  }
  if (before != NULL) before->next = (uintptr_t)0;
  else t->first[bin] = NULL;
  count_transfers(t, bin, 0 - (size_t)goes, mx_bin_size(bin));
  return first;
}

// Never waits: the lock may be held by the very call that a signal interrupted.
static void flush_bin(mx_transfers_t* t, size_t bin, bool force) {
  if (!mx_lock_try(lock_of(t))) return;
  mx_block_t* const block = cut_off(t, bin, force);
  mx_lock_release(lock_of(t));
  give_to_pages(block, UINT32_MAX);
}

static void flush_transfers(mx_transfers_t* t, bool force) {
  if (mx_load_relaxed(&t->bytes) == 0) return;
  for (size_t bin = MX_SMALL_BINS + 1; bin < MX_BIN_HUGE; bin++) {
    if (mx_load_relaxed(&t->counts[bin]) > 0) flush_bin(t, bin, force);
  }
}

static bool is_look_due(void) {
  const uint64_t now = mx_os_clock_msecs();
  if (now - mx_load_relaxed(&transfers_seen) < IDLE_MSECS) return false;
  mx_store_relaxed(&transfers_seen, now);
  return true;
}

void mx_transfer_flush(bool force) {
  if (!MX_TRANSFERS || !mx_load_relaxed(&mx_has_transfers)) return;
  if (!force) {
    if (!is_look_due()) return;
    age_overflows();
  }
  mx_call_enter();
  for (size_t i = 0; i < CACHES; i++) flush_transfers(&transfers[i], force);
  mx_call_leave();
}

void mx_transfer_forget(void) {
  mx_transfer_most = 0;
  memset((void*)transfers, 0, sizeof(transfers));
}

bool mx_transfer_visit_locks(mx_lock_visit_fn* visit) {
  for (size_t i = 0; i < CACHES; i++) {
    if (!visit(&transfer_locks[i].lock)) return false;
  }
  return true;
}
