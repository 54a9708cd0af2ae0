// SPDX-License-Identifier: MIT
// Writes a single byte, the 32nd past the end of a block, and leaves those before it alone; then
// frees the block.
//
// A catch: the write stops the program, or the free does.
// probe: set=more size=8,4096,262144 by=32
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  CRIME(probe_fill(p + probe_size + probe_by - 1, 1, 0x41));
  free(p);
  return probe_end();
}
