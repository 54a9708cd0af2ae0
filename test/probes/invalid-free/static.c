// SPDX-License-Identifier: MIT
// Frees an array of static storage, at an offset that grows with the size.
//
// A catch: the free stops the program.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

static _Alignas(16) unsigned char array[2 * PROBE_MAX_SIZE];

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  CRIME(free(probe_hide(array + ((probe_size + 15) & ~(size_t)15))));
  return probe_end();
}
