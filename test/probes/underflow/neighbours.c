// SPDX-License-Identifier: MIT
// Writes the 1 or 8 bytes before the second of three blocks and frees all three, so that damage to
// the end of the block before it can be found.
//
// A catch: the write stops the program, or one of the frees does.
// probe: set=more size=8,4096,262144 by=1,8
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* first = probe_malloc(probe_size);
  unsigned char* second = probe_malloc(probe_size);
  unsigned char* third = probe_malloc(probe_size);
  CRIME(probe_fill(probe_hide((void*)((uintptr_t)second - probe_by)), probe_by, 0x41));
  free(first);
  free(second);
  free(third);
  return probe_end();
}
