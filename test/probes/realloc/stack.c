// SPDX-License-Identifier: MIT
// Grows an array on the stack.
//
// A catch: the call stops the program or fails.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char array[probe_size + 32];
  void* aligned = (void*)(((uintptr_t)array + 31) & ~(uintptr_t)15);
  probe_fill(array, probe_size + 32, 0);
  CRIME(
      if (realloc(probe_hide(aligned), 4 * probe_size) == NULL) probe_refused("realloc failed"));
  return probe_end();
}
