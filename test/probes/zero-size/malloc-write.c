// SPDX-License-Identifier: MIT
// Writes the first byte of the result of malloc(0), with blocks of the size given allocated before
// and after it, and frees all.
//
// A catch: the write stops the program, or one of the frees does.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* before = probe_malloc(probe_size);
  unsigned char* zero = probe_hide(malloc(0));
  void* after = probe_malloc(probe_size);
  CRIME(probe_fill(zero, 1, 0x41));
  free(zero);
  free(before);
  free(after);
  return probe_end();
}
