// SPDX-License-Identifier: MIT
// Copies 1, 8 or 32 bytes too many into a block with memcpy, then frees it.
//
// A catch: the copy stops the program, or the free does.
// probe: set=basic size=8,4096,262144 by=1,8,32
#include "../probe.h"

static unsigned char source[PROBE_MAX_SIZE + PROBE_MAX_BY];

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  probe_fill(source, sizeof(source), 0x41);
  unsigned char* p = probe_malloc(probe_size);
  memcpy(p, source, probe_size + (probe_guilty ? probe_by : 0));
  free(p);
  return probe_end();
}
