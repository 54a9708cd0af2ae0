// SPDX-License-Identifier: MIT
// Sub-processes: made, ended, walked.
#ifndef MX_HEAP_SUBPROC_H
#define MX_HEAP_SUBPROC_H

#include "heap.h"

MX_BEGIN_DECLS
mx_subproc_t* mx_subproc_create(void);
// Ends one with all that it holds. Its threads have ended, or will not touch its blocks again.
void mx_subproc_destroy(mx_subproc_t* subproc);
// Ends one and hands what it holds to the main one.
void mx_subproc_delete(mx_subproc_t* subproc);
// Unmaps everything, the main sub-process' memory included: the process ends.
void mx_subproc_destroy_all(void);
// Steps through the sub-processes: the one behind `at` (NULL: the first), which cannot end before
// the next step; NULL behind the last one. No lock is held between steps.
mx_subproc_t* mx_subproc_step(mx_subproc_t* at);
// The arena of an id, or NULL.
mx_arena_t* mx_subproc_arena_by_id(size_t id, mx_subproc_t** subproc);
extern mx_hidden mx_lock_t mx_subproc_list_lock;
MX_END_DECLS

#endif
