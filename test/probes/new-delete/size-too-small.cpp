// SPDX-License-Identifier: MIT
// Deletes a block with half its size.
//
// A catch: the delete stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"
#include <new>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = ::operator new(probe_size);
  ::operator delete(probe_hide(p), probe_guilty ? probe_size / 2 : probe_size);
  return probe_end();
}
