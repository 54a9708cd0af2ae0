// SPDX-License-Identifier: MIT
// A request that the system refuses: all that the thread keeps and all that waits goes back before
// it fails; and it is said once, with errno.
#include "../stress.h"

#include <errno.h>

#include "base/hooks.h"
#include "heap/heap.h"
#include "mimalloc.h"
#include "mock_os.h"

static int ran_out, errors, last_error;

static void on_ran_out(void) { ran_out++; }

static void on_error(int code, void* arg) {
  (void)arg;
  errors++;
  last_error = code;
}

static intptr_t in_use(void) { return mx_load_relaxed(&mx_subproc_main.arenas.in_use); }
static intptr_t purgeable(void) { return mx_load_relaxed(&mx_subproc_main.arenas.purgeable); }

// Freed blocks of many sizes: pages that are kept, a huge one, and slices that wait, in memory that
// cannot be unmapped.
static void leave_things(void) {
  enum { BLOCKS = 40 };
  void* p[BLOCKS];
  for (size_t size = 100; size < 3 * MX_MIB; size *= 3) {
    const int count = (size > 100 * MX_KIB ? 2 : BLOCKS);
    for (int i = 0; i < count; i++) memset(p[i] = mi_malloc(size), 1, size);
    for (int i = 0; i < count; i++) mi_free(p[i]);
  }
}

// A request for which there are no addresses is refused at once: nothing that is kept could help.
static void refused(size_t size, bool may_help) {
  mi_collect(true);
  const intptr_t before = in_use();
  leave_things();
  const intptr_t kept = in_use();
  check(kept > before && (purgeable() > 0 || MX_LARGE_APART));
  ran_out = errors = 0;
  errno = 0;
  mock_fail_all();
  check(mi_malloc(size) == NULL && errno == ENOMEM);
  mock_heal();
  check(in_use() == (may_help ? before : kept) && (!may_help || purgeable() == 0));
  check(errors == 1 && last_error == ENOMEM);
  check(MX_READ_ONLY || ran_out == 1);
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  mi_option_set(mi_option_max_errors, 0);
  mi_option_set(mi_option_max_warnings, 0);
  mi_option_set(mi_option_purge_delay, 100000);
  mi_register_error(&on_error, NULL);
  mi_free(mi_malloc(100));
  check(mi_reserve_os_memory(64 * MX_MIB, true, false) == 0);
  if (!MX_READ_ONLY) mx_hooks.memory_ran_out = &on_ran_out;
  refused(5 * MX_GIB, true);
  refused((size_t)PTRDIFF_MAX / 2, !MX_64BIT);
  if (MX_64BIT) refused(1000 * MX_GIB, true);
  refused(MX_BLOCK_MAX + 1, false);
  // No memory is that large, but a request may be; one that is larger is none.
  ran_out = errors = 0;
  check(mi_malloc(MX_MAX_ALLOC) == NULL && (MX_READ_ONLY || ran_out == 1));
  check(mi_malloc(MX_MAX_ALLOC + 1) == NULL && (MX_READ_ONLY || ran_out == 1));
  check(errors > 1 && errno == ENOMEM);
  printf("ok\n");
  return 0;
}
