// SPDX-License-Identifier: MIT
// Grows a block, frees the result, and frees the pointer from before the growth as well.
//
// A catch: the free of the old pointer stops the program.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  void* q = probe_must(realloc(p, 4 * probe_size));
  free(q);
  CRIME(free(probe_hide(p)));
  return probe_end();
}
