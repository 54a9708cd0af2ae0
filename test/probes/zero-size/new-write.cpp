// SPDX-License-Identifier: MIT
// Writes the first byte of an array of no elements from new[], and deletes it.
//
// A catch: the write stops the program, or the delete does.
// probe: set=more size=-
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  char* zero = reinterpret_cast<char*>(probe_hide(new char[probe_by]));
  CRIME(probe_fill(zero, 1, 0x41));
  delete[] zero;
  return probe_end();
}
