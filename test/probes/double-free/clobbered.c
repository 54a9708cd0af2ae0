// SPDX-License-Identifier: MIT
// Frees a block, overwrites its start, where some allocators keep the mark of a freed block, and
// frees it again.
//
// A catch: the write or the second free stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  const size_t n = (probe_size < 64 ? probe_size : 64);
  free(p);
  CRIME(probe_fill(probe_hide(p), n, 0x41); free(probe_hide(p)));
  return probe_end();
}
