// SPDX-License-Identifier: MIT
// Frees an array on the stack.
//
// A catch: the free stops the program.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char array[probe_size + 32];
  const uintptr_t aligned = ((uintptr_t)array + 31) & ~(uintptr_t)15;
  probe_fill(array, probe_size + 32, 0);
  CRIME(free(probe_hide((void*)aligned)));
  return probe_end();
}
