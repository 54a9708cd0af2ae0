// SPDX-License-Identifier: MIT
// Writes 8 bytes past the end of a block with an alignment of 64 bytes, then frees it.
//
// A catch: the write stops the program, or the free does.
// probe: set=more size=8,4096,262144 by=8
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_aligned(64, probe_size);
  probe_fill(p, probe_size, 0x41);
  CRIME(probe_fill(p + probe_size, probe_by, 0x41));
  free(p);
  return probe_end();
}
