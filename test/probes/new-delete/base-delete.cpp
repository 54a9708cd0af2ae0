// SPDX-License-Identifier: MIT
// Deletes an object of a derived class through its base, which has no virtual destructor, so that
// the size of the base is passed on.
//
// A catch: the delete stops the program.
// probe: set=basic size=-
#include "../probe.h"

struct Base {
  long words[2];
};

struct Derived : Base {
  long more[30];
};

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  Derived* p = new Derived;
  if (probe_guilty) {
    delete reinterpret_cast<Base*>(probe_hide(p));
  } else {
    delete p;
  }
  return probe_end();
}
