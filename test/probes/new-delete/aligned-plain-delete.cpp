// SPDX-License-Identifier: MIT
// Makes a block with an alignment of 64 bytes and deletes it without the alignment.
//
// A catch: the delete stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"
#include <new>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  const std::align_val_t align{64};
  void* p = ::operator new(probe_size, align);
  if (probe_guilty) {
    ::operator delete(probe_hide(p));
  } else {
    ::operator delete(p, align);
  }
  return probe_end();
}
