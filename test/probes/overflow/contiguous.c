// SPDX-License-Identifier: MIT
// Fills a block and goes on past its end by 1, 8 or 32 bytes, then frees it.
//
// A catch: the write stops the program, or the free does.
// probe: set=basic size=8,4096,262144 by=1,8,32
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  probe_fill(p, probe_size, 0x41);
  CRIME(probe_fill(p + probe_size, probe_by, 0x41));
  free(p);
  return probe_end();
}
