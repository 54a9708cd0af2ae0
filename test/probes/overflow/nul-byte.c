// SPDX-License-Identifier: MIT
// Writes one zero byte past the end of a block, as the terminator of a string that just fitted,
// then frees it.
//
// A catch: the write stops the program, or the free does.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  probe_fill(p, probe_size, 0x41);
  CRIME(probe_fill(p + probe_size, 1, 0));
  free(p);
  return probe_end();
}
