// SPDX-License-Identifier: MIT
// Vast blocks outside the arenas that come and go leave nothing behind: where each has addresses of
// its own, the entries of the page map for the former ones must not stay present.
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "../../include/mimalloc.h"

#define MIB ((size_t)1024 * 1024)
#define SIZE ((size_t)(2304 * (uint64_t)MIB))  // more than lies in arenas; 288 KiB of entries
#define ROUNDS 200
#define MOST (8 * MIB)

static size_t resident(void) {
  long pages = 0, present = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%ld %ld", &pages, &present) != 2) present = 0;
  fclose(file);
  return (size_t)present * (size_t)sysconf(_SC_PAGESIZE);
}

static int make_and_free(int rounds) {
  for (int i = 0; i < rounds; i++) {
    char* const p = (char*)mi_malloc(SIZE);
    if (p == NULL) return 1;
    p[0] = p[SIZE - 1] = 1;
    mi_free(p);
  }
  return 0;
}

int main(void) {
  if (sizeof(void*) < 8) return 77;
  if (make_and_free(10) != 0) return 77;
  const size_t before = resident();
  if (make_and_free(ROUNDS) != 0) return 77;
  const size_t after = resident();
  printf("%zu KiB before, %zu KiB after %d blocks\n", before / 1024, after / 1024, ROUNDS);
  return after > before + MOST;
}
