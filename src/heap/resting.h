// SPDX-License-Identifier: MIT
// Verifying what no thread verifies as its own: pages that nobody allocates from at the moment.
#ifndef MX_HEAP_RESTING_H
#define MX_HEAP_RESTING_H

#include "heap.h"

MX_BEGIN_DECLS
// Whether nobody wrote between the blocks of other threads' pages at rest, and of those that no
// thread has; reports each page where somebody did. All go on meanwhile.
bool mx_subproc_verify_resting(mx_subproc_t* subproc);
MX_END_DECLS

#endif
