// SPDX-License-Identifier: MIT
// Grows a block given a pointer to its middle.
//
// A catch: the call stops the program or fails.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  void* middle = probe_hide(p + probe_size / 2);
  CRIME(if (realloc(middle, 4 * probe_size) == NULL) probe_refused("realloc failed"));
  return probe_end();
}
