// SPDX-License-Identifier: MIT
// Makes an array of a plain structure with new[] and deletes it with delete, which passes on the
// size of one element.
//
// A catch: the delete stops the program.
// probe: set=basic size=-
#include "../probe.h"

struct Plain {
  long words[4];
};

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  Plain* p = new Plain[16];
  if (probe_guilty) {
    delete reinterpret_cast<Plain*>(probe_hide(p));
  } else {
    delete[] p;
  }
  return probe_end();
}
