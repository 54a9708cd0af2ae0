// SPDX-License-Identifier: MIT
// Gives a block from the operator new[] to the operator delete without the size.
//
// A catch: the delete stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"
#include <new>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = ::operator new[](probe_size);
  if (probe_guilty) {
    ::operator delete(probe_hide(p));
  } else {
    ::operator delete[](p);
  }
  return probe_end();
}
