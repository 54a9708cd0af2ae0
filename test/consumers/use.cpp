// SPDX-License-Identifier: MIT
// A C++ program on the library's containers' allocator.
#include <mimalloc.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

int main() {
  std::vector<int, mi_stl_allocator<int>> numbers;
  for (int i = 0; i < 100000; i++) numbers.push_back(i);
  typedef std::pair<const int, std::string> entry;
  std::map<int, std::string, std::less<int>, mi_stl_allocator<entry>> names;
  for (int i = 0; i < 1000; i++) names[i] = std::string(100, 'x');
  if (!mi_is_in_heap_region(numbers.data()) || numbers[99999] != 99999) return 1;
  if (!mi_is_in_heap_region(&*names.begin()) || names.size() != 1000) return 1;
  std::puts("used");
  return 0;
}
