// SPDX-License-Identifier: MIT
// Frees memory that the program got from mmap itself.
//
// A catch: the free stops the program.
// probe: set=basic size=8,4096,262144
#include "../probe.h"
#include <sys/mman.h>

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = mmap(NULL, probe_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) probe_setup_failed();
  CRIME(free(probe_hide(p)));
  return probe_end();
}
