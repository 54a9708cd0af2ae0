// SPDX-License-Identifier: MIT
// Asks for the usable size of a freed block.
//
// A catch: the call stops the program or answers 0.
// probe: set=basic size=8,4096,262144
#include "../probe.h"
#include <malloc.h>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  free(p);
  CRIME(if (malloc_usable_size(probe_hide(p)) == 0) probe_refused("the answer is 0"));
  return probe_end();
}
