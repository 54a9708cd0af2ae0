// SPDX-License-Identifier: MIT
// Frees a static array dressed up as a heap block: the words before and after it are the boundary
// tags of a block in use.
//
// A catch: the free stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"

static _Alignas(16) size_t words[(PROBE_MAX_SIZE + 256) / sizeof(size_t)];

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  const size_t in_use = 1;
  const size_t span = ((probe_size + sizeof(size_t) + 15) & ~(size_t)15) + 16;
  words[1] = span | in_use;
  words[1 + span / sizeof(size_t)] = 32 | in_use;
  CRIME(free(probe_hide(&words[2])));
  return probe_end();
}
