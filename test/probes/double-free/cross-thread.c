// SPDX-License-Identifier: MIT
// A block is freed by another thread, which ends, and then by the thread that allocated it.
//
// A catch: the second free stops the program.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  probe_in_thread(probe_free_it, p);
  CRIME(free(probe_hide(p)));
  return probe_end();
}
