// SPDX-License-Identifier: MIT
// Guarded blocks: each lies against an inaccessible OS page and becomes inaccessible when it
// is freed. See guarded.c, and sample.h for which blocks are.
#ifndef MX_ALLOC_GUARDED_H
#define MX_ALLOC_GUARDED_H

#include "../base/options.h"
#include "../heap/heap.h"

MX_BEGIN_DECLS
// A guarded block of the main heap whose bytes are zero; NULL when there cannot be one (more).
void* mx_guarded_alloc(size_t size);
// Frees a guarded block whose mark was taken.
void mx_guarded_free(mx_page_t* page);
// The live guarded blocks' pages one after the other, from *index 0 on; NULL behind the last one.
mx_page_t* mx_guarded_next(size_t* index);
// A fork waits until nobody is at the records.
bool mx_guarded_visit_locks(mx_lock_visit_fn* visit);
MX_END_DECLS

mx_inline bool mx_page_is_guarded(const mx_page_t* page) {
  return (mx_load_relaxed(&page->lend) & MX_PAGE_GUARDED) != 0;
}

#endif
