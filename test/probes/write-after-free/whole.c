// SPDX-License-Identifier: MIT
// Writes all of a freed block and then allocates and frees blocks of its size many times over.
//
// A catch: the write stops the program, or one of the later calls does.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  free(p);
  CRIME(probe_fill(probe_hide(p), probe_size, 0x41));
  probe_cycle(probe_size);
  return probe_end();
}
