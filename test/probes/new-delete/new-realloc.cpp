// SPDX-License-Identifier: MIT
// Grows a block from new with realloc.
//
// A catch: the call stops the program or fails.
// probe: set=more size=8,4096,262144
#include "../probe.h"
#include <new>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = ::operator new(probe_size);
  if (probe_guilty) {
    if (realloc(probe_hide(p), 4 * probe_size) == nullptr) probe_refused("realloc failed");
  } else {
    ::operator delete(p);
  }
  return probe_end();
}
