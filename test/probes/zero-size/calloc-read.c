// SPDX-License-Identifier: MIT
// Reads the first byte of an array of no elements of the size given, from calloc.
//
// A catch: the read stops the program.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* zero = probe_hide(calloc(0, probe_size));
  CRIME(probe_read(zero, 1));
  free(zero);
  return probe_end();
}
