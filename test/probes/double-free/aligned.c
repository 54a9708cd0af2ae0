// SPDX-License-Identifier: MIT
// Frees a block with an alignment of 256 bytes twice.
//
// A catch: the second free stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = probe_aligned(256, probe_size);
  free(p);
  CRIME(free(probe_hide(p)));
  return probe_end();
}
