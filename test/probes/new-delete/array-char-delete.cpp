// SPDX-License-Identifier: MIT
// Makes an array of 64 characters with new[] and deletes it with delete, which passes on a size of
// 1.
//
// A catch: the delete stops the program.
// probe: set=basic size=-
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  char* p = new char[64];
  if (probe_guilty) {
    delete reinterpret_cast<char*>(probe_hide(p));
  } else {
    delete[] p;
  }
  return probe_end();
}
