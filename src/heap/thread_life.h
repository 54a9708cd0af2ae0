// SPDX-License-Identifier: MIT
// The start, and a thread's way through the heaps: its theaps, its default, its end.
#ifndef MX_HEAP_THREAD_LIFE_H
#define MX_HEAP_THREAD_LIFE_H

#include "heap.h"

MX_BEGIN_DECLS
// Starts what allocation needs: facts, the page map, the main heap. Any number of times, from any
// thread; false when the OS gives no memory at all.
bool mx_heap_start(void);
// This thread's default theap, made when there is none; NULL when out of memory.
mx_theap_t* mx_thread_theap(void);
// This thread's theap of a heap; NULL when there is none and `create` is false or memory is out.
mx_theap_t* mx_thread_theap_of(mx_heap_t* heap, bool create);
// Makes a theap the default one: the one before; NULL, and no change, for NULL or out of memory.
mx_theap_t* mx_thread_set_default(mx_theap_t* theap);
// The same with the main heap's, which lasts as long as the process: for calls of the C library
// that keep what they allocate. It ends with mx_thread_set_default of the answer.
mx_theap_t* mx_thread_set_lasting(void);
// The sub-process of this thread.
mx_subproc_t* mx_thread_subproc(void);
// Makes this thread one of a sub-process; false when it has pages already or memory is out.
bool mx_thread_join(mx_subproc_t* subproc);
// Ends this thread's use of the library: pages with live blocks are abandoned. Calls that follow
// on the same thread start anew.
void mx_thread_done(void* first_theap);
// The same for another thread, which is gone without a call; its id must be one that no later
// thread can have.
void mx_thread_died(void* first_theap, uintptr_t id);
// Releases what this thread's theaps hold empty, of all heaps, with force also what is kept.
void mx_thread_collect(bool force);
// Bytes in the pages that this thread owns; and abandons pages until these are `target` or less.
size_t mx_thread_owned_bytes(void);
void mx_thread_reduce(size_t target);
// This thread shall not take over what others leave, unless it needs memory.
void mx_thread_set_pooled(void);
// Gives the record of a theap that is bound to no heap back, if it is this thread's.
bool mx_thread_put_aside(mx_theap_t* theap);
// Puts aside this thread's theaps whose heaps others gave up.
void mx_thread_absorb_orphans(void);
// Its locks, and the child's repair of its records.
bool mx_thread_visit_locks(mx_lock_visit_fn* visit);
void mx_thread_after_fork(void);
MX_END_DECLS

#endif
