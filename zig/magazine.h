// SPDX-License-Identifier: MIT
// The magazines of a thread, as the front fills them: see magazine.c.
#ifndef MX_ZIG_MAGAZINE_H
#define MX_ZIG_MAGAZINE_H

#include "../src/heap/heap.h"

MX_BEGIN_DECLS
// Frees a block for which this thread's magazine has no place. `theap` is its default one, bound;
// false when there is no memory for magazines or no place, and nothing was done.
bool mx_magazine_put(mx_theap_t* theap, size_t bin, mx_block_t* block);
MX_END_DECLS

#endif
