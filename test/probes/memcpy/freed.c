// SPDX-License-Identifier: MIT
// Copies into a block that was freed.
//
// A catch: the copy stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"

static unsigned char source[PROBE_MAX_SIZE + PROBE_MAX_BY];

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  probe_fill(source, sizeof(source), 0x41);
  unsigned char* p = probe_malloc(probe_size);
  memcpy(p, source, probe_size);
  free(p);
  CRIME(memcpy(probe_hide(p), source, probe_size));
  return probe_end();
}
