// SPDX-License-Identifier: MIT
// Frees a thread-local array.
//
// A catch: the free stops the program.
// probe: set=more size=-
#include "../probe.h"

static _Thread_local _Alignas(16) unsigned char array[64];

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  CRIME(free(probe_hide(array)));
  return probe_end();
}
