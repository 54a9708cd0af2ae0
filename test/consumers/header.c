// SPDX-License-Identifier: MIT
// A source whose calls of malloc become calls of the library by a header; the rest of the process
// keeps the system's malloc.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mimalloc-override.h>

int main(void) {
  void* blocks[] = {malloc(100), calloc(10, 10), strdup("text"), realloc(malloc(10), 1000),
                    aligned_alloc(64, 128)};
  for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
    if (!mi_is_in_heap_region(blocks[i])) {
      printf("block %d is not the library's\n", (int)i);
      return 1;
    }
    free(blocks[i]);
  }
  puts("served");
  return 0;
}
