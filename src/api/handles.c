// SPDX-License-Identifier: MIT
// The way from a heap's handle to the thread's part of it when it is not the one used last.
#include "../heap/thread_life.h"
#include "handles.h"

#include <errno.h>

mx_noinline mx_theap_t* mx_api_theap_search(mi_heap_t* heap) {
  mx_theap_t* const theap = mx_thread_theap_of(mx_api_heap(heap), true);
  if (theap == NULL) errno = ENOMEM;
  return theap;
}
