// SPDX-License-Identifier: MIT
// Reads the first byte of the result of malloc(0), with blocks of the size given allocated before
// and after it.
//
// A catch: the read stops the program.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* before = probe_malloc(probe_size);
  unsigned char* zero = probe_hide(malloc(0));
  void* after = probe_malloc(probe_size);
  CRIME(probe_read(zero, 1));
  free(zero);
  free(before);
  free(after);
  return probe_end();
}
