// SPDX-License-Identifier: MIT
// Frees the address just past the end of a block.
//
// A catch: the free stops the program.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  CRIME(free(probe_hide(p + probe_size)));
  return probe_end();
}
