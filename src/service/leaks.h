// SPDX-License-Identifier: MIT
// The list of blocks that are in use when the process ends (option leak_report).
#ifndef MX_SERVICE_LEAKS_H
#define MX_SERVICE_LEAKS_H

#include "../base/config.h"
#include "../base/lock.h"

// Other builds do not know which blocks are live without asking every page's lists.
#define MX_LEAKS (MX_DEBUG > 0 && MX_LIVE_BITS)

MX_BEGIN_DECLS
// With leak_report=2: remembers from now on where each block was allocated.
void mx_leaks_init(void);
// No other thread may be at work in any heap.
void mx_leaks_print(void);
bool mx_leaks_visit_locks(mx_lock_visit_fn* visit);  // for fork
MX_END_DECLS

#endif
