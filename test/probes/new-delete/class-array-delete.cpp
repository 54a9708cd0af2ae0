// SPDX-License-Identifier: MIT
// Makes an object of a class with a destructor with new and deletes it with delete[], which takes
// the word before the block for the number of elements.
//
// A catch: the delete stops the program.
// probe: set=basic size=-
#include "../probe.h"

struct Watched {
  volatile long value = 1;
  ~Watched() { probe_sink = (unsigned char)value; }
};

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  Watched* p = new Watched;
  if (probe_guilty) {
    delete[] reinterpret_cast<Watched*>(probe_hide(p));
  } else {
    delete p;
  }
  return probe_end();
}
