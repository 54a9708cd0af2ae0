// SPDX-License-Identifier: MIT
// Asks malloc for a negative number of bytes.
//
// A catch: malloc fails.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = malloc(probe_guilty ? (size_t)0 - probe_size : probe_size);
  CRIME(if (p == NULL) probe_refused("malloc failed"));
  free(p);
  return probe_end();
}
