// SPDX-License-Identifier: MIT
// Writes one byte past the end of a block five bytes larger than the size given, which no size
// class fits.
//
// A catch: the write stops the program, or the free does.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  const size_t n = probe_size + 5;
  unsigned char* p = probe_malloc(n);
  probe_fill(p, n, 0x41);
  CRIME(probe_fill(p + n, 1, 0x41));
  free(p);
  return probe_end();
}
