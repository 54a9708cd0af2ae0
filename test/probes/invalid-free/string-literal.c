// SPDX-License-Identifier: MIT
// Frees a string literal.
//
// A catch: the free stops the program.
// probe: set=more size=-
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  CRIME(free(probe_hide("a string of the program's own read-only data")));
  return probe_end();
}
