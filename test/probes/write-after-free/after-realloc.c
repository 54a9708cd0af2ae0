// SPDX-License-Identifier: MIT
// Writes through the pointer from before a growth that moved the block, and then allocates and
// frees blocks of the old size many times over.
//
// A catch: the write stops the program, or one of the later calls does; a block that grows in
// place leaves nothing to write to.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  void* wall = probe_malloc(probe_size);
  void* q = probe_must(realloc(p, 16 * probe_size));
  CRIME(if (q == (void*)p) probe_refused("the block grew in place"));
  CRIME(probe_fill(probe_hide(p), 8, 0x41));
  probe_cycle(probe_size);
  free(wall);
  free(q);
  return probe_end();
}
