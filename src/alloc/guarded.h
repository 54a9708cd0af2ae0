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
// The live guarded blocks' pages one after the other, from *index 0 on; NULL behind the last one.
mx_page_t* mx_guarded_next(size_t* index);
// Sets, for a theap of the calling thread, what the options say for all others. Only a main heap's
// has blocks that are sampled; for another it does nothing.
void mx_guarded_set_rate(const mx_theap_t* theap, size_t rate, size_t seed);
void mx_guarded_set_bound(const mx_theap_t* theap, size_t least, size_t most);
// A fork waits until nobody is at the records; the second on both sides.
void mx_guarded_before_fork(void);
void mx_guarded_after_fork(void);
extern mx_hidden mx_atomic(int) mx_guarded_has_own;  // a theap has a rate of its own, above 0
MX_END_DECLS

mx_inline bool mx_guarded_is_on(void) {
  return mx_option(guarded_sample_rate) > 0 || mx_load_relaxed(&mx_guarded_has_own) != 0;
}

mx_inline bool mx_page_is_guarded(const mx_page_t* page) {
  return (mx_load_relaxed(&page->lend) & MX_PAGE_GUARDED) != 0;
}

#endif
