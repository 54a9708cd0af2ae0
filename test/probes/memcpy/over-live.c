// SPDX-License-Identifier: MIT
// Copies 8 bytes too many into a block that is never freed.
//
// A catch: the copy itself stops the program.
// probe: set=more size=8,4096,262144 by=8
#include "../probe.h"

static unsigned char source[PROBE_MAX_SIZE + PROBE_MAX_BY];

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  probe_fill(source, sizeof(source), 0x41);
  unsigned char* p = probe_malloc(probe_size);
  memcpy(p, source, probe_size + (probe_guilty ? probe_by : 0));
  return probe_end();
}
