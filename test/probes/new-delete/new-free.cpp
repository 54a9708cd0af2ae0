// SPDX-License-Identifier: MIT
// Frees a block from new with free.
//
// A catch: the free stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"
#include <new>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = ::operator new(probe_size);
  if (probe_guilty) {
    free(probe_hide(p));
  } else {
    ::operator delete(p);
  }
  return probe_end();
}
