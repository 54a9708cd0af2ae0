// SPDX-License-Identifier: MIT
// The count of NUMA nodes: asked of the OS once, when somebody first wants to know.
#include "numa.h"

#include "../base/options.h"
#include "../os/os.h"

static mx_atomic(unsigned) numa_found;

unsigned mx_numa_count(void) {
  const long pretended = mx_option(use_numa_nodes);
  if (pretended > 0) return (unsigned)pretended;
  unsigned found = mx_load_relaxed(&numa_found);
  if (found == 0) {
    found = mx_os_numa_count();
    mx_store_relaxed(&numa_found, found);
  }
  return found;
}

unsigned mx_numa_current(void) {
  const unsigned count = mx_numa_count();
  return count == 1 ? 0 : mx_os_numa_node() % count;
}
