// SPDX-License-Identifier: MIT
// The empty pages that a theap keeps for a while (see retained.c).
#ifndef MX_HEAP_RETAINED_H
#define MX_HEAP_RETAINED_H

#include "heap.h"

MX_BEGIN_DECLS
// An empty page of a partial list: keeps it, or lets go of it.
void mx_retained_put(mx_theap_t* theap, mx_page_t* page);
// A page leaves its list: if it is kept, it is no longer.
void mx_retained_forget(mx_theap_t* theap, mx_page_t* page);
// Lets go of an empty page of a partial list, kept or not.
void mx_retained_release(mx_theap_t* theap, mx_page_t* page);
// Lets go of those whose time is over at `now` (ms).
void mx_retained_age(mx_theap_t* theap, uint32_t now);
void mx_retained_release_all(mx_theap_t* theap);
// The theap takes a page from its partial list, to allocate from it: one that was used up before it
// became empty begins anew, in the order of addresses.
void mx_retained_begin(mx_theap_t* theap, mx_page_t* page);
// A page for a bin that has none, made of one that is kept beyond the share; or NULL. It is on no
// list and belongs to no thread, as a fresh one.
mx_page_t* mx_retained_convert(mx_theap_t* theap, size_t bin);
// The theap took slices: lets go of a page of one slice, if more than the share is kept.
void mx_retained_make_up(mx_theap_t* theap);
MX_END_DECLS

#endif
