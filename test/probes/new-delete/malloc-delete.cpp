// SPDX-License-Identifier: MIT
// Deletes a block from malloc.
//
// A catch: the delete stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"
#include <new>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  if (probe_guilty) {
    ::operator delete(probe_hide(p));
  } else {
    free(p);
  }
  return probe_end();
}
