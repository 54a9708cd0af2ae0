// SPDX-License-Identifier: MIT
// Frees that take a page over.
#ifndef MX_HEAP_CLAIM_H
#define MX_HEAP_CLAIM_H

#include "heap.h"

MX_BEGIN_DECLS
// A free from outside found a page abandoned, and this code owns it now.
void mx_page_claimed_by_free(mx_page_t* page);
MX_END_DECLS

#endif
