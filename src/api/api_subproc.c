// SPDX-License-Identifier: MIT
// The calls on sub-processes.
#include <errno.h>

#include "../base/hooks.h"
#include "../heap/subproc.h"
#include "../heap/thread_life.h"
#include "handles.h"

static mi_subproc_id_t subproc_handle(mx_subproc_t* subproc) {
  mi_subproc_id_t id;
  id.opaque = subproc;
  return id;
}

mi_subproc_id_t mi_subproc_main(void) { return subproc_handle(&mx_subproc_main); }

mi_subproc_id_t mi_subproc_current(void) { return subproc_handle(mx_thread_subproc()); }

mi_subproc_id_t mi_subproc_new(void) {
  mx_subproc_t* const subproc = mx_subproc_create();
  if (subproc == NULL) errno = ENOMEM;
  return subproc_handle(subproc);
}

void mi_subproc_destroy(mi_subproc_id_t id) {
  mx_subproc_t* const subproc = mx_api_subproc(id);
  if (subproc != NULL && subproc != &mx_subproc_main) mx_subproc_destroy(subproc);
}

void mi_subproc_delete(mi_subproc_id_t id) {
  mx_subproc_t* const subproc = mx_api_subproc(id);
  if (subproc != NULL && subproc != &mx_subproc_main) mx_subproc_delete(subproc);
}

void mi_subproc_add_current_thread(mi_subproc_id_t id) {
  mx_subproc_t* const subproc = mx_api_subproc(id);
  if (subproc == NULL || subproc == mx_thread_subproc()) return;
  if (!mx_thread_join(subproc)) {
    mx_warning("this thread has allocated already and stays in its sub-process\n");
  }
}

bool mi_subproc_visit_heaps(mi_subproc_id_t id, mi_heap_visit_fun* visitor, void* arg) {
  mx_subproc_t* const subproc = mx_api_subproc(id);
  if (subproc == NULL || visitor == NULL) return false;
  // Without the lock, as a visitor may do what takes it; the list stands still by contract.
  for (mx_heap_t *next = subproc->heaps, *heap; (heap = next) != NULL;) {
    next = heap->next;
    if (!visitor(mx_api_heap_handle(heap), arg)) return false;
  }
  return true;
}
