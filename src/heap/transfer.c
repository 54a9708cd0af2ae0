// SPDX-License-Identifier: MIT
// The transfer cache: blocks above MX_SMALL_MAX that a thread freed into another one's page go on
// to the next thread that would take new memory for one of their size, instead of waiting in the
// page for their owner. Threads that share what they allocate (a cache behind a lock) else have
// as many blocks of a size each as they ever had live, though others free them all.
//
// To its page such a block is in use all the time. Few are kept: what a bin may have, and a share
// of what is committed. When these are reached a free looks at two words and writes none of them; a
// thread that finds the lock taken does without. Only blocks of the main heap are kept, and of
// pages that a thread has. They go to their pages when their bin was not used for a while, and
// whenever memory is given back.
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../os/thread.h"
#include "../page/remote.h"
#include "adopt.h"
#include "transfer.h"

#define SHARE 8               // of what is committed, and
#define LEAST (512 * MX_KIB)  // at least so much, in all bins
#define IDLE_MSECS 250        // between two looks at what is not used

size_t mx_transfer_most = 512 * MX_KIB;
mx_atomic(uint32_t) mx_transfer_counts[MX_BIN_COUNT];
static mx_atomic(size_t) transfer_bytes;
static mx_lock_t transfer_lock;  // of what follows; nothing is taken while it is held
static mx_block_t* transfer_first[MX_BIN_COUNT];
static uint64_t transfers_used[MX_BIN_WORDS];  // bins that had one put or taken since the last look
static mx_atomic(uint64_t) transfers_seen;     // when that was, clock in ms

static bool has_transfer_room(size_t bin, size_t size) {
  const size_t count = mx_load_relaxed(&mx_transfer_counts[bin]);
  const size_t committed = (size_t)mx_load_relaxed(&mx_process_counters.committed.current);
  return (count + 1) * size <= mx_transfer_most &&
         mx_load_relaxed(&transfer_bytes) + size <= mx_max(committed / SHARE, LEAST);
}

static void count_transfers(size_t bin, size_t change, size_t size) {
  mx_set_bit(transfers_used, bin);
  mx_store_relaxed(&mx_transfer_counts[bin],
                   mx_load_relaxed(&mx_transfer_counts[bin]) + (uint32_t)change);
  mx_store_relaxed(&transfer_bytes, mx_load_relaxed(&transfer_bytes) + change * size);
}

bool mx_transfer_put(mx_page_t* page, mx_block_t* block) {
  const size_t bin = page->bin, size = page->block_size;
  if (!has_transfer_room(bin, size) || !mx_page_has_thread(page)) return false;
  if (mx_page_heap(page) != &mx_subproc_main.main_heap) return false;
  if (mx_heap_node(&mx_subproc_main.main_heap) >= 0) return false;
  mx_call_enter();
  const bool is_locked = mx_lock_try(&transfer_lock);
  mx_block_t* const first = (is_locked ? transfer_first[bin] : NULL);
  if (is_locked && first != block) {
    block->next = (uintptr_t)first;
    transfer_first[bin] = block;
    count_transfers(bin, 1, size);
  }
  if (is_locked) mx_lock_release(&transfer_lock);
  if (mx_unlikely(first == block)) mx_remote_refuse(page, block);
  mx_call_leave();
  return is_locked;
}

mx_block_t* mx_transfer_take(const mx_heap_t* heap, size_t bin) {
  if (heap != &mx_subproc_main.main_heap || !mx_lock_try(&transfer_lock)) return NULL;
  mx_block_t* const block = transfer_first[bin];
  if (block != NULL) {
    transfer_first[bin] = (mx_block_t*)block->next;
    count_transfers(bin, (size_t)-1, mx_bin_size(bin));
  }
  mx_lock_release(&transfer_lock);
  return block;
}

// ---- giving back -------------------------------------------------------------------------------

static void give_to_page(mx_block_t* block) {
  mx_page_t* const page = mx_pagemap_get(block);
  if (!mx_remote_push(page, block)) return;
  mx_page_own_again(page);
  mx_page_collect(page);
  mx_page_abandon(page);
}

// Of a bin that was used since the last look only with force.
static void flush_transfers(size_t bin, bool force) {
  mx_block_t* block = NULL;
  mx_lock_acquire(&transfer_lock);
  if (force || !mx_has_bit(transfers_used, bin)) {
    block = transfer_first[bin];
    transfer_first[bin] = NULL;
    count_transfers(bin, 0 - (size_t)mx_load_relaxed(&mx_transfer_counts[bin]), mx_bin_size(bin));
  }
  mx_clear_bit(transfers_used, bin);
  mx_lock_release(&transfer_lock);
  for (mx_block_t* next; block != NULL; block = next) {
    next = (mx_block_t*)block->next;
    give_to_page(block);
  }
}

static bool is_look_due(void) {
  const uint64_t now = mx_os_clock_msecs();
  if (now - mx_load_relaxed(&transfers_seen) < IDLE_MSECS) return false;
  mx_store_relaxed(&transfers_seen, now);
  return true;
}

void mx_transfer_flush(bool force) {
  if (!MX_TRANSFERS || mx_load_relaxed(&transfer_bytes) == 0 || (!force && !is_look_due())) return;
  mx_call_enter();
  for (size_t bin = MX_SMALL_BINS + 1; bin < MX_BIN_HUGE; bin++) {
    if (mx_transfer_has(bin)) flush_transfers(bin, force);
  }
  mx_call_leave();
}

bool mx_transfer_visit_locks(mx_lock_visit_fn* visit) { return visit(&transfer_lock); }
