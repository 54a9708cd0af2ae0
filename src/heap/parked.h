// SPDX-License-Identifier: MIT
// Theaps of threads that ended, which wait for the next ones.
#ifndef MX_HEAP_PARKED_H
#define MX_HEAP_PARKED_H

#include "heap.h"

MX_BEGIN_DECLS
// Parks the first theap of a thread that ends, which has no other any more. False: it stays the
// caller's, as it was.
bool mx_theap_park(mx_theap_t* first);
// Takes a parked theap of a sub-process for this thread, which owns its pages then; or NULL, also
// when too many threads have one.
mx_theap_t* mx_theap_take_parked(mx_subproc_t* subproc);
// The thread of a first theap is no longer one of those: it ends, or gave up what it took.
void mx_theap_leave_takers(mx_theap_t* first);
// Abandons the pages of parked theaps: with force of all, else of those that waited long enough.
// Whether some are left.
bool mx_parked_give_up(mx_subproc_t* subproc, bool force);
// Whether a theap is parked: it is whole, and no thread's.
bool mx_theap_is_parked(const mx_theap_t* theap);
MX_END_DECLS

#endif
