// SPDX-License-Identifier: MIT
// The way from handles to what they stand for, where that takes a look at it.
#include "../base/hooks.h"
#include "../heap/thread_life.h"
#include "handles.h"

#include <errno.h>

mx_noinline mx_theap_t* mx_api_theap_search(mi_heap_t* heap) {
  mx_theap_t* const theap = mx_thread_theap_of(mx_api_heap(heap), true);
  if (theap == NULL) errno = ENOMEM;
  return theap;
}

mx_subproc_t* mx_api_subproc(mi_subproc_id_t id) {
  mx_subproc_t* const subproc = (mx_subproc_t*)id.opaque;
  if (subproc == NULL || mx_load_relaxed(&subproc->main_heap.id) != MX_HEAP_GONE) return subproc;
  mx_error(EINVAL, "sub-process %p was deleted or destroyed before\n", (void*)subproc);
  return NULL;
}
