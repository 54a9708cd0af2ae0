// SPDX-License-Identifier: MIT
// Giving back parts of pages in use, on the way and on request.
#ifndef MX_HEAP_TRIM_H
#define MX_HEAP_TRIM_H

#include "heap.h"

MX_BEGIN_DECLS
// A new page is its bin's next current one, and may have more memory than it will need.
void mx_theap_expect_slack(mx_theap_t* theap, const mx_page_t* page);
// In a round of housekeeping, of a current page whose bin is marked in `slack`: gives back what
// lies behind its blocks, when it was not needed for a while.
void mx_theap_look_for_slack(mx_theap_t* theap, const mx_page_t* page);
// Some time has passed: slack waits half as long.
void mx_theap_age_slack(mx_theap_t* theap);
// Once in a pass of collecting, of the caller's own page: whether what is free in it is worth
// giving back, nobody used the page since the last such look, and its bin waits no more.
bool mx_theap_is_idle(const mx_theap_t* theap, const mx_page_t* page);
// Gives that back: the page is at rest now.
void mx_theap_give_idle(mx_theap_t* theap, mx_page_t* page);
// A page of the bin gets more blocks, out of its holes or behind the others.
void mx_theap_takes_memory(mx_theap_t* theap, size_t bin, bool fills_holes);
// A pass begins. Low bits of the clock, in ms.
void mx_theap_begin_idle(mx_theap_t* theap, uint32_t now);
// Makes holes in a page, if it is at rest (see page/holes.h): how many bytes that gave back.
size_t mx_page_make_holes(mx_page_t* page, bool is_owner);
// A page was made: makes holes in a few pages that are mostly free, if what is committed has grown
// since that was done in all of them.
void mx_subproc_trim(mx_subproc_t* subproc);
// Makes holes in all pages at rest; answers how many bytes that gave back. With idle_only only in
// those that nobody used since the walk before; *has_changed: there are others.
size_t mx_subproc_make_holes(mx_subproc_t* subproc, bool idle_only, bool* has_changed);
MX_END_DECLS

#endif
