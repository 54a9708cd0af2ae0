// SPDX-License-Identifier: MIT
// Frees an address where a mapping was and is no longer.
//
// A catch: the free stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"
#include <sys/mman.h>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = mmap(NULL, probe_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED || munmap(p, probe_size) != 0) probe_setup_failed();
  CRIME(free(probe_hide(p)));
  return probe_end();
}
