// SPDX-License-Identifier: MIT
// Frees a good pointer whose top byte was changed, as a pointer with a forgotten tag would be.
//
// A catch: the free stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  CRIME(free(probe_hide((void*)((uintptr_t)p ^ ((uintptr_t)0x5a << 56)))));
  free(p);
  return probe_end();
}
