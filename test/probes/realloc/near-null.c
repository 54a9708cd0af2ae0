// SPDX-License-Identifier: MIT
// Grows the number 8, 4096 or 262144 taken for a pointer.
//
// A catch: the call stops the program or fails.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = probe_hide((void*)(uintptr_t)probe_size);
  CRIME(if (realloc(p, 64) == NULL) probe_refused("realloc failed"));
  return probe_end();
}
