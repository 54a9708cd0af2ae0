// SPDX-License-Identifier: MIT
// Fills a block with a secret, frees it, and looks for the secret through the stale pointer.
//
// A catch: the secret is gone, or the search stops the program.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  probe_fill_secret(p, probe_size);
  free(p);
  bool found = false;
  CRIME(found = probe_has_secret(probe_hide(p), probe_size));
  CRIME(if (!found) probe_refused("the freed block shows nothing of it"));
  return probe_end();
}
