// SPDX-License-Identifier: MIT
// Frees a block and allocates 16 of half its size: an object of one kind in the place of another.
//
// A catch: none of the new blocks lies within the old one.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  enum { BLOCKS = 16 };
  probe_begin(argc, argv);
  const uintptr_t p = (uintptr_t)probe_malloc(probe_size);
  free((void*)p);
  bool reused = false;
  for (int i = 0; i < BLOCKS; i++) {
    const uintptr_t q = (uintptr_t)probe_malloc(probe_size / 2);
    reused = reused || (q >= p && q < p + probe_size);
  }
  CRIME(if (!reused) probe_refused("the new blocks lie elsewhere"));
  return probe_end();
}
