// SPDX-License-Identifier: MIT
// Frees a block, allocates blocks of other sizes, and frees the first block again.
//
// A catch: the second free of the block stops the program.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  enum { OTHERS = 8 };
  void* others[OTHERS];
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  free(p);
  for (size_t i = 0; i < OTHERS; i++) others[i] = probe_malloc(2 * probe_size + 64 * (i + 1));
  CRIME(free(probe_hide(p)));
  for (size_t i = 0; i < OTHERS; i++) free(others[i]);
  return probe_end();
}
