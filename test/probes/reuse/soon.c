// SPDX-License-Identifier: MIT
// Frees a block and allocates 16 of the same size.
//
// A catch: none of the new blocks is where the old one was.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  enum { BLOCKS = 16 };
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  free(p);
  bool reused = false;
  for (int i = 0; i < BLOCKS; i++) reused = (probe_malloc(probe_size) == probe_hide(p)) || reused;
  CRIME(if (!reused) probe_refused("the new blocks lie elsewhere"));
  return probe_end();
}
