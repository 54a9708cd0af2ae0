// SPDX-License-Identifier: MIT
// Frees memory that the program got from sbrk itself.
//
// A catch: the free stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = sbrk((intptr_t)(probe_size + 8192));
  if (p == (void*)-1) probe_setup_failed();
  const uintptr_t inside = ((uintptr_t)p + 4096 + 15) & ~(uintptr_t)15;
  CRIME(free(probe_hide((void*)inside)));
  return probe_end();
}
