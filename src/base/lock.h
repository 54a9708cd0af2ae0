// SPDX-License-Identifier: MIT
// Owns the one kind of lock: a word that is spun on briefly and then yields the processor.
//
// Locks guard rare structural changes (the list of arenas, of heaps, a heap's pages), never a
// path of malloc or free that does not go to an arena, and none is held across an OS call or a
// user's callback. They need no OS object, so they work before any start-up and can be made new in
// the child of a fork. Order: subproc, then heap, then arena list.
#ifndef MX_BASE_LOCK_H
#define MX_BASE_LOCK_H

#include "atomic.h"

typedef struct mx_lock_s {
  mx_atomic(uintptr_t) held;
} mx_lock_t;

MX_BEGIN_DECLS
void mx_os_yield(void);  // defined by the ground floor
MX_END_DECLS

mx_inline bool mx_lock_try(mx_lock_t* lock) {
  uintptr_t free_state = 0;
  return mx_load_relaxed(&lock->held) == 0 &&
         mx_cas_strong_acq_rel(&lock->held, &free_state, (uintptr_t)1);
}

static inline void mx_lock_acquire(mx_lock_t* lock) {
  for (unsigned spins = 0; !mx_lock_try(lock); spins++) {
    if (spins < 64) mx_spin_hint();
    else mx_os_yield();
  }
}

mx_inline void mx_lock_release(mx_lock_t* lock) { mx_store_release(&lock->held, (uintptr_t)0); }

// In the child of a fork: whoever held it does not exist here.
mx_inline void mx_lock_reset(mx_lock_t* lock) { mx_store_relaxed(&lock->held, (uintptr_t)0); }

#endif
