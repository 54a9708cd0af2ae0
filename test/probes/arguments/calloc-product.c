// SPDX-License-Identifier: MIT
// Asks calloc for elements of the size given whose product overflows to a small number.
//
// A catch: calloc fails.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  const size_t count = (probe_guilty ? SIZE_MAX / probe_size + 2 : 2);
  void* p = calloc(count, probe_size);
  CRIME(if (p == NULL) probe_refused("calloc failed"));
  free(p);
  return probe_end();
}
