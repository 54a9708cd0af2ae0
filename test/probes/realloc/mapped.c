// SPDX-License-Identifier: MIT
// Grows memory that the program got from mmap itself.
//
// A catch: the call stops the program or fails.
// probe: set=more size=8,4096,262144
#include "../probe.h"
#include <sys/mman.h>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = mmap(NULL, probe_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) probe_setup_failed();
  CRIME(if (realloc(probe_hide(p), 4 * probe_size) == NULL) probe_refused("realloc failed"));
  return probe_end();
}
