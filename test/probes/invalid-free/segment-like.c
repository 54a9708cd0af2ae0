// SPDX-License-Identifier: MIT
// Frees an address in a zeroed 64 MiB mapping of the program, aligned and offset as allocators lay
// out segments of their own.
//
// A catch: the free stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"
#include <sys/mman.h>

int main(int argc, char** argv) {
  const size_t align = (size_t)32 << 20;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  probe_begin(argc, argv);
  void* map = mmap(NULL, 2 * align, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (map == MAP_FAILED) probe_setup_failed();
  const uintptr_t segment = ((uintptr_t)map + align - 1) & ~((uintptr_t)align - 1);
  const uintptr_t page = segment + 65536;
  CRIME(free(probe_hide((void*)(page + 2 * ((probe_size + 15) & ~(size_t)15)))));
  return probe_end();
}
