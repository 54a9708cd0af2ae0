// SPDX-License-Identifier: MIT
// Grows a block sixteenfold, which moves it, and allocates one of the old size.
//
// A catch: the new block is not where the old one was.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  probe_malloc(probe_size);
  probe_must(realloc(p, 16 * probe_size));
  void* q = probe_malloc(probe_size);
  CRIME(if (q != probe_hide(p)) probe_refused("the new block lies elsewhere"));
  return probe_end();
}
