// SPDX-License-Identifier: MIT
// Writes the 8 bytes before the start of a block and then grows it.
//
// A catch: the write stops the program, or the growth does.
// probe: set=more size=8,4096,262144 by=8
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  CRIME(probe_fill(probe_hide((void*)((uintptr_t)p - probe_by)), probe_by, 0x41));
  void* q = probe_must(realloc(p, 4 * probe_size));
  free(q);
  return probe_end();
}
