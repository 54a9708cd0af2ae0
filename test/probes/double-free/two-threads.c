// SPDX-License-Identifier: MIT
// Two threads, one after the other, free the same block of a third.
//
// A catch: the free by the second thread stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  probe_in_thread(probe_free_it, p);
  CRIME(probe_in_thread(probe_free_it, probe_hide(p)));
  return probe_end();
}
