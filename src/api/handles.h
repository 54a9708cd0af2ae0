// SPDX-License-Identifier: MIT
// The way from the handles of the public interface to what they stand for.
#ifndef MX_API_HANDLES_H
#define MX_API_HANDLES_H

#include "../../include/mimalloc.h"
#include "../heap/thread_life.h"

MX_BEGIN_DECLS
// The calling thread's theap of a heap, made if need be; NULL with errno ENOMEM.
mx_theap_t* mx_api_theap_search(mi_heap_t* heap);
// NULL for none, and with an error for one that was given up.
mx_subproc_t* mx_api_subproc(mi_subproc_id_t id);
MX_END_DECLS

// NULL is the main heap of the thread's sub-process.
mx_inline mx_heap_t* mx_api_heap(const mi_heap_t* heap) {
  if (heap == NULL) return &mx_thread_subproc()->main_heap;
  return (mx_heap_t*)(uintptr_t)heap;
}

mx_inline mi_heap_t* mx_api_heap_handle(mx_heap_t* heap) { return (mi_heap_t*)(void*)heap; }

mx_inline mx_theap_t* mx_api_theap(const mi_theap_t* theap) {
  return (mx_theap_t*)(uintptr_t)theap;
}

mx_inline mi_theap_t* mx_api_theap_handle(mx_theap_t* theap) { return (mi_theap_t*)(void*)theap; }

// Whether a heap is the one that this thread used last. NULL never is: a thread without theaps has
// a last one that is bound to no heap, but it may have another default than the main heap.
mx_inline bool mx_api_is_last(mi_heap_t* heap) {
  return mx_load_relaxed(&mx_tls_last->heap) == (mx_heap_t*)(void*)heap && heap != NULL;
}

mx_inline mx_theap_t* mx_api_theap_of(mi_heap_t* heap) {
  return mx_likely(mx_api_is_last(heap)) ? mx_tls_last : mx_api_theap_search(heap);
}

#endif
