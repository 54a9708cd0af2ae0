// SPDX-License-Identifier: MIT
// Frees the result of malloc(0) twice.
//
// A catch: the second free stops the program; a null pointer from malloc(0) leaves nothing to free
// twice.
// probe: set=more size=-
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* zero = probe_hide(malloc(0));
  free(zero);
  CRIME(if (zero == NULL) probe_refused("malloc(0) is a null pointer"));
  CRIME(free(probe_hide(zero)));
  return probe_end();
}
