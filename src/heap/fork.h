// SPDX-License-Identifier: MIT
// What fork needs of this floor.
#ifndef MX_HEAP_FORK_H
#define MX_HEAP_FORK_H

#include "heap.h"

MX_BEGIN_DECLS
// Takes all locks of this floor and those below. False: see mx_fork_take.
bool mx_heap_before_fork(void);
void mx_heap_after_fork_parent(void);
// In the child: threads other than this one are gone, locks are free. Whether there were others.
bool mx_heap_after_fork(void);
MX_END_DECLS

#endif
