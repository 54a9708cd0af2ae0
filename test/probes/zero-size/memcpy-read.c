// SPDX-License-Identifier: MIT
// Copies 8 bytes out of the result of malloc(0) with memcpy.
//
// A catch: the copy stops the program.
// probe: set=more size=-
#include "../probe.h"

int main(int argc, char** argv) {
  unsigned char target[8];
  probe_begin(argc, argv);
  unsigned char* zero = probe_hide(malloc(0));
  CRIME(memcpy(target, zero, sizeof(target)));
  free(zero);
  return probe_end();
}
