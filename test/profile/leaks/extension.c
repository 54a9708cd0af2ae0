// SPDX-License-Identifier: MIT
// A Python extension, called through ctypes, that keeps what it shall not.
#include <stdlib.h>
#include <string.h>

int checksum(const char* text) {
  char* const copy = strdup(text);
  unsigned char* const table = malloc(3000);  // leak
  int sum = 0;
  if (copy == NULL || table == NULL) return -1;
  for (size_t i = 0; copy[i] != 0; i++) sum += table[i % 3000] = (unsigned char)copy[i];
  free(copy);
  return sum;
}
