// SPDX-License-Identifier: MIT
// Deletes a block with a size that is 1 or 64 bytes too large.
//
// A catch: the delete stops the program.
// probe: set=more size=8,4096,262144 by=1,64
#include "../probe.h"
#include <new>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = ::operator new(probe_size);
  ::operator delete(probe_hide(p), probe_size + (probe_guilty ? probe_by : 0));
  return probe_end();
}
