// SPDX-License-Identifier: MIT
// Copies from the middle of a block to 8 bytes past its end, so that the start of the copy is not
// the start of the block; then frees it.
//
// A catch: the copy stops the program, or the free does.
// probe: set=more size=8,4096,262144 by=8
#include "../probe.h"

static unsigned char source[PROBE_MAX_SIZE + PROBE_MAX_BY];

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  probe_fill(source, sizeof(source), 0x41);
  unsigned char* p = probe_malloc(probe_size);
  const size_t half = probe_size / 2;
  memcpy(p + half, source, probe_size - half + (probe_guilty ? probe_by : 0));
  free(p);
  return probe_end();
}
