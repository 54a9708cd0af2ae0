// SPDX-License-Identifier: MIT
// What is done when there is no memory.
#include "../base/hooks.h"
#include "../heap/huge_cache.h"
#include "../heap/parked.h"
#include "../heap/theap.h"
#include "../os/os.h"
#include "alloc.h"
#include "spare.h"


mx_cold void mx_alloc_on_pressure(mx_theap_t* theap) {
  mx_check(theap->tid == mx_thread_id());
  mx_spare_flush(theap);
  mx_check(theap->first->spares.bytes == 0);
  mx_theap_collect(theap, true);
  mx_huge_cache_flush(true);
  mx_parked_give_up(theap->subproc, true);
  mx_arenas_purge(&theap->subproc->arenas, true);
}

mx_cold void* mx_alloc_failed(size_t size) {
  mx_error(ENOMEM, "unable to allocate memory (%zu bytes)\n", size);
  if (mx_hooks.memory_ran_out != NULL && size <= MX_MAX_ALLOC) mx_hooks.memory_ran_out();
  mx_os_set_errno(ENOMEM);
  return NULL;
}
