// SPDX-License-Identifier: MIT
// The control of the whole set: an honest program.
//
// Prints the file that provides `malloc`, so that the scorer can tell a library that was really
// loaded from one that the dynamic linker left out with a remark, and then uses the heap properly
// in every way that the probes abuse, from one thread and from two. Not a probe: it has to reach
// its end under every allocator.
#include <dlfcn.h>
#include <malloc.h>

#include "probe.h"

static void use(size_t n) {
  enum { BLOCKS = 64 };
  unsigned char* blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = probe_malloc(n);
    memset(blocks[i], i, n);
  }
  for (int i = 0; i < BLOCKS; i += 2) {
    blocks[i] = probe_must(realloc(blocks[i], 2 * n + 1));
    if (n > 0 && blocks[i][n - 1] != i) probe_setup_failed();
    if (malloc_usable_size(blocks[i]) < 2 * n + 1) probe_setup_failed();
  }
  for (int i = BLOCKS - 1; i >= 0; i--) free(blocks[i]);
  unsigned char* zeroed = probe_must(calloc(3, n + 1));
  for (size_t i = 0; i < 3 * (n + 1); i++) {
    if (zeroed[i] != 0) probe_setup_failed();
  }
  free(zeroed);
  free(probe_aligned(4096, n));
}

static void* use_all(void* unused) {
  static const size_t sizes[] = {0, 8, 100, 4096, 262144};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) use(sizes[i]);
  return unused;
}

int main(int argc, char** argv) {
  Dl_info info;
  probe_begin(argc, argv);
  void* provided = dlsym(RTLD_DEFAULT, "malloc");
  if (provided == NULL || dladdr(provided, &info) == 0) probe_setup_failed();
  probe_say("MALLOC_FROM ");
  probe_say(info.dli_fname);
  probe_say("\n");
  use_all(NULL);
  probe_in_thread(use_all, NULL);
  probe_in_thread(probe_free_it, probe_malloc(4096));
  return probe_end();
}
