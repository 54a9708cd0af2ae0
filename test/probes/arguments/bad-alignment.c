// SPDX-License-Identifier: MIT
// Asks posix_memalign for an alignment of 24 bytes.
//
// A catch: posix_memalign fails.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  void* p = NULL;
  probe_begin(argc, argv);
  const int error = posix_memalign(&p, probe_guilty ? 24 : 32, probe_size);
  CRIME(if (error != 0) probe_refused("posix_memalign failed"));
  free(p);
  return probe_end();
}
