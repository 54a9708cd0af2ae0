// SPDX-License-Identifier: MIT
// Deletes a block twice.
//
// A catch: the second delete stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"
#include <new>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = ::operator new(probe_size);
  ::operator delete(p);
  CRIME(::operator delete(probe_hide(p)));
  return probe_end();
}
