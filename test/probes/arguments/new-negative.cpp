// SPDX-License-Identifier: MIT
// Asks the operator new that does not throw for a negative number of bytes.
//
// A catch: the operator fails.
// probe: set=more size=-
#include "../probe.h"
#include <new>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = ::operator new(probe_guilty ? size_t(0) - probe_size : probe_size, std::nothrow);
  CRIME(if (p == nullptr) probe_refused("new failed"));
  ::operator delete(p);
  return probe_end();
}
