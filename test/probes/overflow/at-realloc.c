// SPDX-License-Identifier: MIT
// Writes 8 bytes past the end of a block and then grows it.
//
// A catch: the write stops the program, or the growth does.
// probe: set=more size=8,4096,262144 by=8
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  probe_fill(p, probe_size, 0x41);
  CRIME(probe_fill(p + probe_size, probe_by, 0x41));
  void* q = probe_must(realloc(p, 4 * probe_size));
  free(q);
  return probe_end();
}
