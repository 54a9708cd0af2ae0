// SPDX-License-Identifier: MIT
// The operators of a whole C++ program, defined by a header that one of its sources includes.
#include <mimalloc-new-delete.h>
#include <mimalloc.h>

#include <cstdio>
#include <vector>

int main() {
  std::vector<int> numbers(1000, 7);
  int* one = new int(1);
  const bool served = mi_is_in_heap_region(numbers.data()) && mi_is_in_heap_region(one);
  delete one;
  if (served) std::puts("served");
  return served ? 0 : 1;
}
