// SPDX-License-Identifier: MIT
// Frees the address 16 bytes before a block, where other allocators would keep a header.
//
// A catch: the free stops the program.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  CRIME(free(probe_hide((void*)((uintptr_t)p - 16))));
  return probe_end();
}
