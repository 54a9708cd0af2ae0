// SPDX-License-Identifier: MIT
// Frees the address one byte past the result of malloc(0).
//
// A catch: the free stops the program.
// probe: set=more size=-
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* zero = probe_hide(malloc(0));
  CRIME(free(probe_hide(zero + 1)));
  free(zero);
  return probe_end();
}
