// SPDX-License-Identifier: MIT
// Copies a string that is 8 bytes too long into a block with strcpy, then frees it.
//
// A catch: the copy stops the program, or the free does.
// probe: set=more size=8,4096,262144 by=8
#include "../probe.h"

static char source[PROBE_MAX_SIZE + PROBE_MAX_BY];

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  char* p = (char*)probe_malloc(probe_size);
  const size_t with_terminator = probe_size + (probe_guilty ? probe_by : 0);
  probe_fill(source, with_terminator - 1, 0x41);
  strcpy(p, source);
  free(p);
  return probe_end();
}
