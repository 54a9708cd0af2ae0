// SPDX-License-Identifier: MIT
// Owns the sampled guards: one allocation in guarded_sample_rate, in any build, lies against an
// inaccessible OS page and becomes inaccessible when it is freed. See guarded.c.
#ifndef MX_ALLOC_GUARDED_H
#define MX_ALLOC_GUARDED_H

#include "../base/options.h"
#include "../heap/heap.h"

MX_BEGIN_DECLS
// A guarded block for this request, or NULL when it is not one's turn.
void* mx_guarded_alloc(mx_theap_t* theap, size_t size);
// `blocks` allocations will now pass by without a look from here.
void mx_guarded_pass(size_t blocks);
// Frees a guarded block whose mark was taken.
void mx_guarded_free(mx_page_t* page);
MX_END_DECLS

mx_inline bool mx_guarded_is_on(void) { return mx_option(guarded_sample_rate) > 0; }

// A mark in a field that huge pages have no other use for.
#define MX_GUARDED_MARK 0x7F

mx_inline bool mx_page_is_guarded(const mx_page_t* page) {
  return page->retired == MX_GUARDED_MARK;
}

#endif
