// SPDX-License-Identifier: MIT
// Frees a block, then allocates and frees another of the same size 64 times.
//
// A catch: the block never comes back in between.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  enum { CYCLES = 64 };
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  free(p);
  bool reused = false;
  for (int i = 0; i < CYCLES; i++) {
    void* q = probe_malloc(probe_size);
    reused = reused || (q == probe_hide(p));
    free(q);
  }
  CRIME(if (!reused) probe_refused("the new blocks lie elsewhere"));
  return probe_end();
}
