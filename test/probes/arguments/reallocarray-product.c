// SPDX-License-Identifier: MIT
// Asks reallocarray for elements of the size given whose product overflows to a small number.
//
// A catch: reallocarray fails.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  const size_t count = (probe_guilty ? SIZE_MAX / probe_size + 2 : 2);
  void* q = reallocarray(p, count, probe_size);
  CRIME(if (q == NULL) probe_refused("reallocarray failed"));
  free(q);
  return probe_end();
}
