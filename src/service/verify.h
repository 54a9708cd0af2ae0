// SPDX-License-Identifier: MIT
// Verifying all that a heap holds, in builds with canaries; others have nothing to verify.
#ifndef MX_SERVICE_VERIFY_H
#define MX_SERVICE_VERIFY_H

#include "../heap/heap.h"

MX_BEGIN_DECLS
// Whether nobody wrote between the blocks of a heap, which is not in use meanwhile; reports each
// place where somebody did.
bool mx_verify_heap(mx_heap_t* heap);
// At the end of the process: all heaps where it has no other thread, else this thread's pages.
void mx_verify_at_end(void);
MX_END_DECLS

#endif
