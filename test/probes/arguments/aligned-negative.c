// SPDX-License-Identifier: MIT
// Asks posix_memalign for a negative number of bytes, which an alignment added to it makes small.
//
// A catch: posix_memalign fails.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  void* p = NULL;
  probe_begin(argc, argv);
  const size_t n = (probe_guilty ? (size_t)0 - probe_size : probe_size);
  const int error = posix_memalign(&p, PROBE_MAX_SIZE, n);
  CRIME(if (error != 0) probe_refused("posix_memalign failed"));
  free(p);
  return probe_end();
}
