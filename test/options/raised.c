// SPDX-License-Identifier: MIT
// Says on standard output whether it runs with raised rights (AT_SECURE) and what its options are.
#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

int main(void) {
  free(malloc(100));
  mi_free(mi_malloc(100));
  printf("raised=%lu\n", getauxval(AT_SECURE));
  for (int i = 0; i < (int)_mi_option_last; i++) {
    printf("%d=%ld\n", i, mi_option_get((mi_option_t)i));
  }
  return 0;
}
