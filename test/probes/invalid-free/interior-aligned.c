// SPDX-License-Identifier: MIT
// Frees the first address inside a large block that is a multiple of 64 KiB, which looks like a
// page or slice of the allocator's.
//
// A catch: the free stops the program.
// probe: set=more size=262144
#include "../probe.h"

int main(int argc, char** argv) {
  const uintptr_t slice = 65536;
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  const uintptr_t inside = ((uintptr_t)p + slice) & ~(slice - 1);
  CRIME(free(probe_hide((void*)inside)));
  return probe_end();
}
