// SPDX-License-Identifier: MIT
// Fills a block with a secret and frees it, allocates 64 blocks of its size, and looks for the
// secret in them.
//
// A catch: the secret is in none of them, or the search stops the program.
// probe: set=basic size=8,4096,262144
#include "../probe.h"

int main(int argc, char** argv) {
  enum { BLOCKS = 64 };
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  probe_fill_secret(p, probe_size);
  free(p);
  bool found = false;
  for (int i = 0; i < BLOCKS; i++) {
    unsigned char* q = probe_malloc(probe_size);
    CRIME(found = found || probe_has_secret(q, probe_size));
  }
  CRIME(if (!found) probe_refused("no new block shows the old data"));
  return probe_end();
}
