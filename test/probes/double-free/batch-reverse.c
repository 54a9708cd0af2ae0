// SPDX-License-Identifier: MIT
// Frees 64 blocks and then all of them again in the opposite order.
//
// A catch: any of the second frees stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  enum { BLOCKS = 64 };
  void* blocks[BLOCKS];
  probe_begin(argc, argv);
  for (int i = 0; i < BLOCKS; i++) blocks[i] = probe_malloc(probe_size);
  for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
  for (int i = BLOCKS - 1; i >= 0; i--) CRIME(free(probe_hide(blocks[i])));
  return probe_end();
}
