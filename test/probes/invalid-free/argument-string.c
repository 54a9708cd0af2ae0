// SPDX-License-Identifier: MIT
// Frees a string of the command line, which the kernel put on top of the stack.
//
// A catch: the free stops the program.
// probe: set=more size=-
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  CRIME(free(probe_hide(argv[1])));
  return probe_end();
}
