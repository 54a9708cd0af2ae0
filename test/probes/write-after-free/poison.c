// SPDX-License-Identifier: MIT
// Writes the address of a static array into a freed block, as a link for the free list to follow,
// and allocates until the array is handed out.
//
// A catch: the write or an allocation stops the program, or the array is never handed out.
// probe: set=more size=8,4096,262144
#include "../probe.h"

static _Alignas(16) unsigned char target[PROBE_MAX_SIZE + 64];

int main(int argc, char** argv) {
  enum { TRIES = 64 };
  probe_begin(argc, argv);
  unsigned char* p = probe_malloc(probe_size);
  unsigned char* q = probe_malloc(probe_size);
  free(q);
  free(p);
  CRIME(*(void* volatile*)probe_hide(p) = target);
  bool handed_out = false;
  for (int i = 0; i < TRIES; i++) {
    unsigned char* r = (unsigned char*)malloc(probe_size);
    handed_out = handed_out || (r >= target && r < target + sizeof(target));
  }
  CRIME(if (!handed_out) probe_refused("the free list does not lead there"));
  return probe_end();
}
