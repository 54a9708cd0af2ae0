// SPDX-License-Identifier: MIT
// A program that calls the library by its own names, and expects to have found the header and the
// library of one and the same version.
#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  if (mi_version() != MI_MALLOC_VERSION) {
    printf("header %d, library %d\n", MI_MALLOC_VERSION, mi_version());
    return 1;
  }
  char* text = mi_strdup("used");
  void* aligned = mi_malloc_aligned(1000, 4096);
  int* numbers = (int*)mi_calloc(1000, sizeof(int));
  if (text == NULL || aligned == NULL || numbers == NULL) return 1;
  if ((uintptr_t)aligned % 4096 != 0 || numbers[999] != 0 || strcmp(text, "used") != 0) return 1;
  if (!mi_is_in_heap_region(text) || !mi_is_in_heap_region(aligned)) return 1;
  numbers = (int*)mi_realloc(numbers, 100000 * sizeof(int));
  if (numbers == NULL || mi_usable_size(numbers) < 100000 * sizeof(int)) return 1;
  puts(text);
  mi_free(numbers);
  mi_free(aligned);
  mi_free(text);
  return 0;
}
