// SPDX-License-Identifier: MIT
// Frees a block, allocates and frees 256 blocks of its size, and frees it again: whatever
// remembers recent frees has forgotten this one.
//
// A catch: the last free stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  enum { FLOOD = 256 };
  void* flood[FLOOD];
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  free(p);
  for (int i = 0; i < FLOOD; i++) flood[i] = probe_malloc(probe_size);
  for (int i = 0; i < FLOOD; i++) free(flood[i]);
  CRIME(free(probe_hide(p)));
  return probe_end();
}
