// SPDX-License-Identifier: MIT
// Makes a block with an alignment of 64 bytes and deletes it with a larger one that its address
// does not have.
//
// A catch: the delete stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"
#include <new>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  const std::align_val_t made{64};
  void* p = ::operator new(probe_size, made);
  size_t align = 128;
  while (reinterpret_cast<uintptr_t>(p) % align == 0) align *= 2;
  ::operator delete(probe_hide(p), probe_guilty ? std::align_val_t{align} : made);
  return probe_end();
}
