// SPDX-License-Identifier: MIT
// Sets 8 bytes too many of a block with memset, then frees it.
//
// A catch: the call stops the program, or the free does.
// probe: set=more size=8,4096,262144 by=8
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  memset(p, 0x41, probe_size + (probe_guilty ? probe_by : 0));
  free(p);
  return probe_end();
}
