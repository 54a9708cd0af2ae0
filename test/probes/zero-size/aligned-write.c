// SPDX-License-Identifier: MIT
// Writes the first byte of a block of no bytes whose alignment is the size given, and frees it.
//
// A catch: the write stops the program, or the free does.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  void* zero = NULL;
  probe_begin(argc, argv);
  if (posix_memalign(&zero, probe_size, 0) != 0) probe_setup_failed();
  CRIME(probe_fill(probe_hide(zero), 1, 0x41));
  free(zero);
  return probe_end();
}
