// SPDX-License-Identifier: MIT
// The records of theaps: made, linked into heaps, recycled.
#ifndef MX_HEAP_THEAP_RECORD_H
#define MX_HEAP_THEAP_RECORD_H

#include "heap.h"

MX_BEGIN_DECLS
mx_theap_t* mx_theap_record(void);  // NULL when out of memory
void mx_theap_recycle(mx_theap_t* theap);
// Remembers the first theap of a thread that goes on after its end, and finds the one that an
// earlier thread of the same id left behind; NULL when there is none.
void mx_theap_enter_after_end(mx_theap_t* first);
mx_theap_t* mx_theap_take_after_end(uintptr_t tid);
// Tells a theap's thread that its heap was given up.
void mx_theap_orphan(mx_theap_t* theap);
// Enters a theap in a heap's list, binding it, and takes it out; the heap's lock is held.
void mx_theap_link(mx_heap_t* heap, mx_theap_t* theap);
void mx_theap_unlink(mx_heap_t* heap, mx_theap_t* theap);
// Takes a theap out of the heap that it is bound to, if there is one. Its own lock is held.
void mx_theap_unbind(mx_theap_t* theap);
// Forgets all pages, without a look at them.
void mx_theap_wipe(mx_theap_t* theap);
bool mx_theap_visit_locks(mx_lock_visit_fn* visit);
MX_END_DECLS

#endif
