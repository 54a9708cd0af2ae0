// SPDX-License-Identifier: MIT
// Writes 32 bytes past the end of the second of three blocks and frees the third, the first and
// the second.
//
// A catch: the write stops the program, or one of the frees does.
// probe: set=more size=8,4096,262144 by=32
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* first = probe_malloc(probe_size);
  unsigned char* second = probe_malloc(probe_size);
  unsigned char* third = probe_malloc(probe_size);
  probe_fill(second, probe_size, 0x41);
  CRIME(probe_fill(second + probe_size, probe_by, 0x41));
  free(third);
  free(first);
  free(second);
  return probe_end();
}
