// SPDX-License-Identifier: MIT
// Grows a block sixteenfold, which moves it, and then grows it again given the old pointer.
//
// A catch: the second call stops the program or fails; a block that grew in place has no stale
// pointer.
// probe: set=more size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  probe_malloc(probe_size);
  void* q = probe_must(realloc(p, 16 * probe_size));
  CRIME(if (q == probe_hide(p)) probe_refused("the block grew in place"));
  CRIME(if (realloc(probe_hide(p), 4 * probe_size) == NULL) probe_refused("realloc failed"));
  return probe_end();
}
