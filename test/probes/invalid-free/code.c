// SPDX-License-Identifier: MIT
// Frees the address of a function.
//
// A catch: the free stops the program.
// probe: set=more size=-
#include "../probe.h"

static int answer(int x) {
  return x + 1;
}

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  CRIME(free(probe_hide((void*)(uintptr_t)&answer)));
  return probe_end() + answer(-1);
}
