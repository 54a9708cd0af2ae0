// SPDX-License-Identifier: MIT
// Frees two blocks and then the first of them again, which a look at the last free alone does not
// show.
//
// A catch: the third free stops the program.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  void* q = probe_malloc(probe_size);
  free(p);
  free(q);
  CRIME(free(probe_hide(p)));
  return probe_end();
}
