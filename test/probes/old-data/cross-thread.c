// SPDX-License-Identifier: MIT
// A thread fills a block with a secret, frees it and ends; another allocates 64 blocks of its size
// and looks for the secret in them.
//
// A catch: the secret is in none of them, or the search stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"

static void* keep_secret(void* unused) {
  unsigned char* p = probe_malloc(probe_size);
  probe_fill_secret(p, probe_size);
  free(p);
  return unused;
}

int main(int argc, char** argv) {
  enum { BLOCKS = 64 };
  probe_begin(argc, argv);
  probe_in_thread(keep_secret, NULL);
  bool found = false;
  for (int i = 0; i < BLOCKS; i++) {
    unsigned char* q = probe_malloc(probe_size);
    CRIME(found = found || probe_has_secret(q, probe_size));
  }
  CRIME(if (!found) probe_refused("no new block shows the old data"));
  return probe_end();
}
