// SPDX-License-Identifier: MIT
// Verifying a page as a whole: the canaries between its blocks, live and free ones, and the slack
// of live ones. In builds without canaries there is nothing to verify.
#ifndef MX_PAGE_ENDS_H
#define MX_PAGE_ENDS_H

#include "page.h"

// Room for eight bytes as text.
#define MX_BYTES_TEXT 24

MX_BEGIN_DECLS
// In a child of fork: threads are gone that may have been between two steps of making a block, so
// what lies behind a block may not be what its state says.
extern mx_hidden bool mx_ends_are_torn;
// Whether nobody wrote between the carved blocks of a page of blocks; reports each place where
// somebody did. Owner only; other threads may free meanwhile.
bool mx_page_verify(const mx_page_t* page);
// Eight bytes from `p` on as text, in a buffer of the caller's.
const char* mx_bytes_text(char* buf, const void* p);
MX_END_DECLS

#endif
