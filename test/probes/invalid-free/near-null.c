// SPDX-License-Identifier: MIT
// Frees the number 8, 4096 or 262144 taken for a pointer, as a null pointer with a member's offset
// added would be.
//
// A catch: the free stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  CRIME(free(probe_hide((void*)(uintptr_t)probe_size)));
  return probe_end();
}
