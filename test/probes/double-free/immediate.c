// SPDX-License-Identifier: MIT
// Frees a block twice in a row.
//
// A catch: the second free stops the program.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  free(p);
  CRIME(free(probe_hide(p)));
  return probe_end();
}
