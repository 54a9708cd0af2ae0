// SPDX-License-Identifier: MIT
// Writes the 1, 8 or 32 bytes before the start of a block, then frees it.
//
// A catch: the write stops the program, or the free does.
// probe: set=basic size=8,4096,262144 by=1,8,32
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  CRIME(probe_fill(probe_hide((void*)((uintptr_t)p - probe_by)), probe_by, 0x41));
  free(p);
  return probe_end();
}
