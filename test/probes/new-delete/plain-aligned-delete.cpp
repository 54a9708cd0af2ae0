// SPDX-License-Identifier: MIT
// Makes a block without an alignment and deletes it with one that its address does not have.
//
// A catch: the delete stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"
#include <new>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = ::operator new(probe_size);
  size_t align = 32;
  while (reinterpret_cast<uintptr_t>(p) % align == 0) align *= 2;
  if (probe_guilty) {
    ::operator delete(probe_hide(p), std::align_val_t{align});
  } else {
    ::operator delete(p);
  }
  return probe_end();
}
