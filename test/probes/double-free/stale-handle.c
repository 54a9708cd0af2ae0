// SPDX-License-Identifier: MIT
// Frees a block, allocates one of the same size, frees the old pointer and then the new one.
// Either the two differ and the free of the old one is wrong, or they are equal and the last free
// is.
//
// A catch: either free stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  free(p);
  void* q = probe_malloc(probe_size);
  CRIME(free(probe_hide(p)));
  free(q);
  return probe_end();
}
