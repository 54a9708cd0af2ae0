// SPDX-License-Identifier: MIT
// Grows a block that was freed.
//
// A catch: the call stops the program or fails.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  free(p);
  CRIME(if (realloc(probe_hide(p), 4 * probe_size) == NULL) probe_refused("realloc failed"));
  return probe_end();
}
