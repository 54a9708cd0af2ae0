// SPDX-License-Identifier: MIT
// A collection inside a collection: an error that is found while a theap is walked reaches the
// program's handler, which may collect. It must not wait for the walk that waits for it.
#include <stdio.h>
#include <unistd.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/thread_life.h"

int main(void) {
  alarm(30);
  void* const p = mi_malloc(100);
  mx_theap_t* const theap = mx_thread_theap();
  if (p == NULL || theap == NULL) return 1;
  mx_lock_acquire(&theap->lock);  // as while it is walked
  mi_collect(true);
  mi_collect(false);
  mi_heap_collect(mi_heap_main(), true);
  mi_heap_collect(mi_heap_main(), false);
  mi_collect_reduce(0);
  void* const q = mi_malloc(100);
  mx_lock_release(&theap->lock);
  mi_free(p);
  mi_free(q);
  mi_collect(true);
  printf("%s\n", q != NULL ? "ok" : "no memory");
  return q == NULL;
}
