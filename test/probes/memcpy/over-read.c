// SPDX-License-Identifier: MIT
// Copies 32 bytes more out of a block than it has, as an answer with a length that nobody checked.
//
// A catch: the copy stops the program.
// probe: set=more size=8,4096,262144 by=32
#include "../probe.h"

static unsigned char target[PROBE_MAX_SIZE + PROBE_MAX_BY];

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  probe_fill(p, probe_size, 0x41);
  memcpy(target, p, probe_size + (probe_guilty ? probe_by : 0));
  free(p);
  return probe_end();
}
