// SPDX-License-Identifier: MIT
// Frees a pointer one byte into a block, which no allocator can have handed out.
//
// A catch: the free stops the program.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  CRIME(free(probe_hide(p + 1)));
  return probe_end();
}
