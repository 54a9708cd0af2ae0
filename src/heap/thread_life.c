// SPDX-License-Identifier: MIT
// The life of a thread as the library sees it: its first allocation gives it a theap, its end
// leaves that to the next thread (see parked.c) or abandons the pages, and whatever it does after
// that starts anew.
//
// A thread's theaps form a list that begins with its first one, of the main heap of the thread's
// sub-process. The others are found by the number of their heap's record in a table that the first
// one holds (`slots`): O(1) with any number of heaps. An entry counts only while the theap is bound
// to the very heap that is looked for, and has been entered nowhere else since: a table goes on to
// the next thread as it is.
//
// Another thread that gives up a heap cannot take theaps away from the threads that used it: they
// may be looking at them. It unbinds them (destroy) or binds them to the main heap (delete), and
// puts them on a list of the first theap (`orphans`), from where their own thread takes them back
// as spare ones, when it next needs a theap, collects or ends.
#include <string.h>

#include "../base/hooks.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../os/thread.h"
#include "common.h"
#include "heap_record.h"
#include "parked.h"
#include "theap.h"
#include "theap_record.h"
#include "thread_life.h"
#include "transfer.h"

#define SLOTS_MIN 16

mx_thread_local mx_theap_t* mx_tls_theap_var = &mx_theap_empty;
mx_thread_local mx_theap_t* mx_tls_last_var = &mx_theap_empty;
mx_thread_local bool mx_tls_has_ended_var;
mx_magazine_t mx_magazines_none[MX_MAGAZINE_COUNT];
mx_thread_local mx_magazine_t* mx_tls_magazines_var = mx_magazines_none;

// ---- start -------------------------------------------------------------------------------------

enum { NOT_STARTED, STARTED, FAILED };

static mx_at_start mx_atomic(int) start_state;
static mx_at_start mx_lock_t start_lock;

bool mx_heap_start(void) {
  if (mx_load_acquire(&start_state) == STARTED) return true;
  mx_lock_acquire(&start_lock);
  if (mx_load_relaxed(&start_state) != STARTED) {
    mx_os_init();
    if (mx_load_relaxed(&start_state) == NOT_STARTED) mx_heap_init_main(&mx_subproc_main);
    const bool ok = mx_pagemap_init();
    mx_store_release(&start_state, ok ? STARTED : FAILED);
  }
  mx_lock_release(&start_lock);
  return mx_load_relaxed(&start_state) == STARTED;
}

// ---- binding -----------------------------------------------------------------------------------

static void bind(mx_theap_t* theap, mx_heap_t* heap) {
  mx_check(mx_load_relaxed(&theap->heap) == NULL && theap->tid != 0);
  mx_check(theap->tid == mx_thread_id() && theap->retained.slices == 0);
  theap->visits = 0;
  if (theap->larger.count != 0) memset(theap->larger.of, 0, sizeof(theap->larger.of));
  theap->larger.count = 0;
  mx_lock_acquire(&heap->lock);
  mx_theap_link(heap, theap);
  mx_lock_release(&heap->lock);
}

// The thread's default theap is about to be another one.
static void leave_magazines(void) {
  if (!MX_MAGAZINES || mx_tls_magazines == mx_magazines_none) return;
  mx_call_enter();
  mx_tls_magazines = mx_magazines_none;
  mx_magazines_clear(mx_tls_theap, true);
  mx_call_leave();
}

static void leave_heap(mx_theap_t* theap) {
  mx_lock_acquire(&theap->lock);
  if (mx_load_acquire(&theap->heap) != NULL) {
    mx_theap_abandon_all(theap);
    mx_theap_unbind(theap);
  }
  mx_lock_release(&theap->lock);
}

static void put_aside(mx_theap_t* first, mx_theap_t* theap) {
  mx_check(theap != first && theap->first == first);
  mx_check(mx_load_relaxed(&theap->heap) == NULL && !theap->links.is_orphan);
  if (mx_tls_theap == theap) {
    leave_magazines();
    mx_tls_theap = first;
  }
  if (mx_tls_last == theap) mx_tls_last = first;
  theap->links.next_in_heap = first->thread.unbound;
  first->thread.unbound = theap;
}

static void absorb_orphans(mx_theap_t* first) {
  mx_check(first != NULL && first == first->first);
  mx_theap_t* next = mx_take_any(&first->thread.orphans, (mx_theap_t*)NULL);
  for (mx_theap_t* theap; (theap = next) != NULL;) {
    next = theap->links.next_orphan;
    if (theap != first) leave_heap(theap);
    theap->links.is_orphan = false;  // only now: nobody else reaches an unbound theap
    if (theap != first) put_aside(first, theap);
  }
}

bool mx_thread_put_aside(mx_theap_t* theap) {
  mx_theap_t* const first = mx_tls_theap->first;
  if (theap->first != first || theap == first) return false;
  put_aside(first, theap);
  return true;
}

void mx_thread_absorb_orphans(void) {
  if (mx_tls_theap->first != NULL) absorb_orphans(mx_tls_theap->first);
}

// ---- a thread's theaps -------------------------------------------------------------------------

static void enter_thread(mx_theap_t* theap, mx_theap_t* first) {
  mx_check(first->first == first || theap == first);
  theap->tid = mx_thread_id();
  theap->first = first;
  theap->links.is_orphan = false;
  theap->links.next_in_thread = NULL;
  if (theap == first) return;
  theap->links.next_in_thread = first->links.next_in_thread;
  first->links.next_in_thread = theap;
}

static void count_thread(mx_theap_t* first, int64_t change) {
  mx_count_add(&first->subproc->main_heap.counters.threads, change);
}

// A thread may allocate after the last call that tells of its end. What it left behind ends when
// the next thread of its id begins: that one alone may touch pages with this owner.
static void end_again(void) {
  mx_theap_t* const left = mx_theap_take_after_end(mx_thread_id());
  if (left == NULL) return;
  mx_tls_theap = left;
  mx_thread_done(left);
}

static void begin_thread(mx_theap_t* first) {
  enter_thread(first, first);
  first->thread.number = mx_os_thread_number();
  first->thread.unbound = NULL;
  first->thread.heartbeat = 0;
  first->thread.in_deferred_free = false;
  first->thread.is_pooled = false;
  mx_store_relaxed(&first->thread.orphans, (mx_theap_t*)NULL);
}

static mx_theap_t* make_first_theap(mx_subproc_t* subproc) {
  mx_theap_t* first = mx_tls_theap->first;
  if (!mx_heap_start()) return NULL;
  const bool is_new = (first == NULL);
  const bool is_after_end = mx_tls_has_ended;
  if (is_new) {
    end_again();
    first = (is_after_end ? NULL : mx_theap_take_parked(subproc));
    if (first == NULL) first = mx_theap_record();
    if (first == NULL) return NULL;
    begin_thread(first);
  }
  if (mx_load_relaxed(&first->heap) == NULL) bind(first, &subproc->main_heap);
  count_thread(first, 1);
  if (!is_new) return first;  // its sub-process was destroyed under it
  if (MX_COMMON_PAGES) mx_common_begin(first);
  if (is_after_end) mx_theap_enter_after_end(first);
  mx_tls_theap = mx_tls_last = first;
  // May allocate itself, which works already.
  mx_os_thread_arm(first);
  return first;
}

// The thread's first theap, bound; made, if there is none, in the main heap of a sub-process.
static mx_theap_t* first_theap(mx_subproc_t* subproc) {
  mx_theap_t* first = mx_tls_theap->first;
  if (mx_likely(first != NULL && mx_load_relaxed(&first->heap) != NULL)) return first;
  mx_call_enter();
  first = make_first_theap(subproc);
  mx_call_leave();
  return first;
}

mx_theap_t* mx_thread_theap(void) {
  mx_theap_t* theap = mx_tls_theap;
  if (mx_likely(mx_load_relaxed(&theap->heap) != NULL)) return theap;
  theap = first_theap(&mx_subproc_main);
  if (theap != NULL) mx_tls_theap = theap;
  return theap;
}

static mx_theap_t* in_slot(const mx_theap_t* first, const mx_heap_t* heap) {
  mx_check(heap->slot > 0);
  if (heap->slot >= first->thread.slot_count) return NULL;
  mx_theap_t* const theap = first->thread.slots[heap->slot];
  if (theap == NULL || mx_load_acquire(&theap->heap) != heap) return NULL;
  return mx_load_relaxed(&theap->links.slots_of) == first ? theap : NULL;
}

// Tables are metadata, which is never given back: doubling bounds what is lost.
static bool reserve_slot(mx_theap_t* first, size_t slot) {
  if (slot < first->thread.slot_count) return true;
  size_t count = mx_max(first->thread.slot_count, SLOTS_MIN);
  while (count <= slot) count *= 2;
  mx_theap_t** slots = (mx_theap_t**)mx_meta_alloc(count * sizeof(mx_theap_t*));
  if (slots == NULL) return false;
  mx_theap_thread_t* const thread = &first->thread;
  if (thread->slot_count > 0) memcpy(slots, thread->slots, thread->slot_count * sizeof(slots[0]));
  first->thread.slots = slots;
  first->thread.slot_count = count;
  mx_check(slot < first->thread.slot_count);
  return true;
}

static mx_theap_t* join_heap(mx_theap_t* first, mx_heap_t* heap) {
  if (mx_load_relaxed(&heap->id) == MX_HEAP_GONE) {
    mx_error(EINVAL, "heap %p was deleted or destroyed\n", (void*)heap);
    return NULL;
  }
  absorb_orphans(first);
  if (!reserve_slot(first, heap->slot)) return NULL;
  mx_theap_t* theap = first->thread.unbound;
  if (theap != NULL) {
    first->thread.unbound = theap->links.next_in_heap;
  } else {
    theap = mx_theap_record();
    if (theap == NULL) return NULL;
    enter_thread(theap, first);
  }
  mx_check(theap->first == first && theap != first);
  mx_store_relaxed(&theap->links.slots_of, first);
  bind(theap, heap);
  first->thread.slots[heap->slot] = theap;
  mx_check(mx_load_relaxed(&theap->heap) == heap);
  return theap;
}

mx_theap_t* mx_thread_theap_of(mx_heap_t* heap, bool create) {
  mx_theap_t* theap = mx_tls_last;
  if (mx_load_relaxed(&theap->heap) == heap) return theap;
  mx_theap_t* const first = (create ? first_theap(&mx_subproc_main) : mx_tls_theap->first);
  if (first == NULL) return NULL;
  theap = (mx_load_relaxed(&first->heap) == heap ? first : in_slot(first, heap));
  if (!create) return theap;
  if (theap == NULL) {
    mx_call_enter();
    theap = join_heap(first, heap);
    mx_call_leave();
  }
  if (theap != NULL) mx_tls_last = theap;
  return theap;
}

mx_theap_t* mx_thread_set_default(mx_theap_t* theap) {
  mx_theap_t* const before = mx_thread_theap();
  if (before == NULL || theap == NULL) return NULL;
  leave_magazines();
  mx_tls_theap = theap;
  return before;
}

mx_theap_t* mx_thread_set_lasting(void) {
  return mx_thread_set_default(mx_thread_theap_of(&mx_subproc_main.main_heap, true));
}

mx_subproc_t* mx_thread_subproc(void) {
  mx_theap_t* const first = mx_tls_theap->first;
  if (first != NULL && mx_load_relaxed(&first->heap) != NULL) return first->subproc;
  return &mx_subproc_main;
}

static bool has_pages(const mx_theap_t* theap) {
  for (size_t bin = 1; bin < MX_BIN_COUNT; bin++) {
    if (mx_theap_uses(theap, bin)) return true;
  }
  return false;
}

static bool join(mx_theap_t* first, mx_subproc_t* subproc) {
  absorb_orphans(first);
  if (mx_thread_subproc() != &mx_subproc_main) return false;
  for (mx_theap_t* t = first->links.next_in_thread; t != NULL; t = t->links.next_in_thread) {
    if (mx_load_relaxed(&t->heap) != NULL) return false;
  }
  mx_spare_give_up(first);
  mx_theap_collect(first, true);
  // Of pages that another thread left, nobody can tell whose the blocks are that live in them.
  if (!first->thread.was_parked && has_pages(first)) return false;
  mx_theap_leave_takers(first);
  if (mx_load_relaxed(&first->heap) != NULL) count_thread(first, -1);
  leave_heap(first);
  bind(first, &subproc->main_heap);
  count_thread(first, 1);
  leave_magazines();
  mx_tls_theap = mx_tls_last = first;
  return true;
}

bool mx_thread_join(mx_subproc_t* subproc) {
  mx_theap_t* const first = mx_tls_theap->first;
  if (first == NULL) return first_theap(subproc) != NULL;
  mx_call_enter();
  const bool has_joined = join(first, subproc);
  mx_call_leave();
  return has_joined;
}

void mx_thread_collect(bool force) {
  mx_theap_t* const first = mx_tls_theap->first;
  if (force) mx_heap_release_cached(mx_thread_subproc());
  mx_parked_give_up(mx_thread_subproc(), force);
  if (first == NULL) return;
  mx_call_enter();
  absorb_orphans(first);
  for (mx_theap_t* theap = first; theap != NULL; theap = theap->links.next_in_thread) {
    // Held, its heap is being destroyed, or this thread collects: an error was reported meanwhile,
    // and the program's handler collects.
    if (!mx_lock_try(&theap->lock)) continue;
    if (mx_load_acquire(&theap->heap) != NULL) mx_theap_collect(theap, force);
    mx_lock_release(&theap->lock);
  }
  mx_call_leave();
}

static size_t bytes_in(const mx_page_t* page) {
  size_t bytes = 0;
  for (; page != NULL; page = page->next) bytes += mx_page_size(page);
  return bytes;
}

size_t mx_thread_owned_bytes(void) {
  size_t bytes = 0;
  for (mx_theap_t* t = mx_tls_theap->first; t != NULL; t = t->links.next_in_thread) {
    if (!mx_lock_try(&t->lock)) continue;  // as in mx_thread_collect
    for (size_t bin = 1; bin < MX_BIN_COUNT; bin++) {
      if (t->bins.current[bin] != &mx_page_none) bytes += mx_page_size(t->bins.current[bin]);
      bytes += bytes_in(t->lists.partial[bin]) + bytes_in(t->lists.full[bin]);
    }
    mx_lock_release(&t->lock);
  }
  return bytes;
}

void mx_thread_reduce(size_t target) {
  mx_theap_t* theap = mx_tls_theap->first;
  if (theap != NULL) mx_spare_give_up(theap);
  for (; theap != NULL && mx_thread_owned_bytes() > target; theap = theap->links.next_in_thread) {
    if (!mx_lock_try(&theap->lock)) continue;
    if (mx_load_acquire(&theap->heap) != NULL) mx_theap_abandon_all(theap);
    mx_lock_release(&theap->lock);
  }
}

void mx_thread_set_pooled(void) {
  if (mx_thread_theap() == NULL) return;
  mx_theap_t* const first = mx_tls_theap->first;
  first->thread.is_pooled = true;
  if (!first->thread.was_parked) return;
  mx_call_enter();
  mx_theap_leave_takers(first);
  mx_thread_reduce(0);
  mx_call_leave();
}

static void end_thread(mx_theap_t* first, bool may_park) {
  mx_check(first == first->first);
  mx_spare_give_up(first);
  mx_check(first->spares.bytes == 0);
  mx_transfer_flush(true);  // its pages shall not go on with blocks that nobody has
  if (mx_load_relaxed(&first->heap) != NULL) count_thread(first, -1);
  mx_theap_leave_takers(first);
  mx_theap_t* next = first->links.next_in_thread;
  for (mx_theap_t* theap = next; theap != NULL; theap = theap->links.next_in_thread) {
    leave_heap(theap);
  }
  // A thread that gave up a heap touched `first` under the locks of its theaps or the heap's lock:
  // all that is over, and nobody finds these theaps any more.
  for (mx_theap_t* theap; (theap = next) != NULL;) {
    next = theap->links.next_in_thread;
    mx_theap_recycle(theap);
  }
  first->links.next_in_thread = NULL;
  if (MX_COMMON_PAGES) mx_common_end(first);
  if (may_park && mx_theap_park(first)) return;
  leave_heap(first);
  mx_theap_recycle(first);
}

void mx_thread_done(void* first_of_thread) {
  mx_theap_t* const first = (mx_theap_t*)first_of_thread;
  // A thread that ended by a call of its own may have armed nothing since.
  if (first == NULL || mx_tls_theap->first != first) return;
  mx_call_enter();
  leave_magazines();
  mx_tls_theap = mx_tls_last = &mx_theap_empty;
  mx_tls_has_ended = true;
  end_thread(first, true);
  mx_call_leave();
}

void mx_thread_died(void* first_of_thread, uintptr_t id) {
  mx_theap_t* const first = (mx_theap_t*)first_of_thread;
  // A thread that ended by a call of its own left its record to others, which wrote their id before
  // they bound it.
  if (mx_load_acquire(&first->heap) == NULL || (first->tid & ~MX_OWNER_TAGS) != id) return;
  end_thread(first, false);
}

// ---- fork --------------------------------------------------------------------------------------

bool mx_thread_visit_locks(mx_lock_visit_fn* visit) { return visit(&start_lock); }

void mx_thread_after_fork(void) {
  mx_theap_t* const first = mx_tls_theap->first;
  if (first != NULL) first->thread.number = mx_os_thread_number();
  for (mx_theap_t* theap = first; theap != NULL; theap = theap->links.next_in_thread) {
    mx_lock_reset(&theap->lock);
  }
}
