// SPDX-License-Identifier: MIT
// Asks for the usable size of an array on the stack.
//
// A catch: the call stops the program or answers 0.
// probe: set=more size=8,4096,262144
#include "../probe.h"
#include <malloc.h>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char array[probe_size + 32];
  void* aligned = (void*)(((uintptr_t)array + 31) & ~(uintptr_t)15);
  probe_fill(array, probe_size + 32, 0x41);
  CRIME(if (malloc_usable_size(probe_hide(aligned)) == 0) probe_refused("the answer is 0"));
  return probe_end();
}
