// SPDX-License-Identifier: MIT
// Deletes a block with the alignment that it was made with, 64 bytes, and twice its size.
//
// A catch: the delete stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"
#include <new>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  const std::align_val_t align{64};
  void* p = ::operator new(probe_size, align);
  ::operator delete(probe_hide(p), probe_guilty ? 2 * probe_size : probe_size, align);
  return probe_end();
}
