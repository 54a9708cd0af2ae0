// SPDX-License-Identifier: MIT
// Keeps 64 MiB, of which three quarters at the line that says so.
#include <stdlib.h>

static void* volatile kept[4096];

static void keep_most(void) {
  for (int i = 0; i < 3072; i++) kept[i] = malloc(16384);  // most
}

static void keep_rest(void) {
  for (int i = 3072; i < 4096; i++) kept[i] = malloc(16384);  // rest
}

int main(void) {
  keep_most();
  keep_rest();
  return kept[0] == NULL;
}
