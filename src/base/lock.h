// SPDX-License-Identifier: MIT
// The one kind of lock: a word with its holder's identity, in which a waiter sleeps.
//
// Locks protect rare structural changes (the list of arenas, of heaps, a heap's pages), never a
// path of malloc or free that does not go to an arena. None is held across a user's callback, and
// few across an OS call (docs/concurrency.md names them). They need no OS object, so they work
// before any start-up. A waiter spins briefly and then sleeps until the holder wakes it. Order:
// subproc, then heap, then arena list.
//
// The word names its holder, so that a fork in a signal's handler knows what the very thread that
// it interrupted holds. Such a fork takes the other locks, and waits for none of them without end:
// their holders may wait for what the interrupted thread holds (see heap/fork.c). What a fork took
// protects nothing that is being changed: a call that the same thread makes meanwhile, in a handler
// of fork, passes by; the handler of a signal in the middle of such a call does not.
#ifndef MX_BASE_LOCK_H
#define MX_BASE_LOCK_H

#include "atomic.h"

typedef struct mx_lock_s {
  mx_atomic(uintptr_t) holder;  // 0: free; else a thread's identity, and a bit that others wait
  uint32_t fork_level;          // the fork that took it, 0: none; its holder's
  bool is_passed;               // by a call inside of that fork, which does without; its holder's
} mx_lock_t;

// Defined by the ground floor.
MX_BEGIN_DECLS
bool mx_lock_try(mx_lock_t* lock);
void mx_lock_acquire(mx_lock_t* lock);
void mx_lock_release(mx_lock_t* lock);
// In the child of a fork: whoever held it does not exist here, unless it is this thread.
void mx_lock_reset(mx_lock_t* lock);
bool mx_lock_is_mine(const mx_lock_t* lock);

// Waits a moment for other threads, which do not tell when they are done; `turn` counts from 0.
// It yields a few times, then sleeps, so that a thread of low priority gets to the end of it.
void mx_pause(unsigned turn);
void mx_nap(void);  // the sleep of it, a millisecond or less

// ---- around a fork -----------------------------------------------------------------------------
// A fork begins, takes locks, forks, lets go of them and ends. It may be interrupted by another one
// of the same thread at any place.
typedef bool mx_lock_visit_fn(mx_lock_t* lock);

void mx_fork_begin(void);
bool mx_fork_has_begun(void);
// Takes a lock, unless this thread has it already. False: let go of all and begin again behind
// mx_fork_wait, because others may wait for this thread. That has an end: a fork goes on without a
// lock that one holder keeps for a second.
bool mx_fork_take(mx_lock_t* lock);
void mx_fork_wait(void);
// Lets go of what this fork took.
bool mx_fork_let_go(mx_lock_t* lock);
// The same in the child, where nobody else holds a lock.
bool mx_fork_let_go_in_child(mx_lock_t* lock);
// Lets go of the lock of a record that nobody will visit any more, if a fork of this thread has it.
void mx_fork_forget(mx_lock_t* lock);
// Whether this thread is in a call that the fork interrupted; whether it went on without a lock.
bool mx_fork_is_inside(void);
bool mx_fork_has_missed(void);
void mx_fork_end(void);
MX_END_DECLS

#endif
