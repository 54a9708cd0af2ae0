// SPDX-License-Identifier: MIT
// A block that was allocated by a thread that has ended is freed twice.
//
// A catch: the second free stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"

static void* allocate(void* slot) {
  *(void**)slot = probe_malloc(probe_size);
  return NULL;
}

int main(int argc, char** argv) {
  void* p = NULL;
  probe_begin(argc, argv);
  probe_in_thread(allocate, &p);
  free(p);
  CRIME(free(probe_hide(p)));
  return probe_end();
}
