// SPDX-License-Identifier: MIT
// Deletes an object on the stack.
//
// A catch: the delete stops the program.
// probe: set=more size=-
#include "../probe.h"

struct Plain {
  alignas(16) long words[4];
};

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  Plain object = {{1, 2, 3, 4}};
  CRIME(delete reinterpret_cast<Plain*>(probe_hide(&object)));
  return probe_end();
}
