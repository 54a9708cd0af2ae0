// SPDX-License-Identifier: MIT
// Frees a block and allocates one of the same size.
//
// A catch: the new block is not where the old one was.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  free(p);
  void* q = probe_malloc(probe_size);
  CRIME(if (q != probe_hide(p)) probe_refused("the new block lies elsewhere"));
  return probe_end();
}
