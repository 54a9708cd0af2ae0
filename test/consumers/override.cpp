// SPDX-License-Identifier: MIT
// A C++ program that knows only new and delete: every form of operator new must be served.
#include <cstdio>
#include <new>
#include <string>
#include <vector>

extern "C" bool mi_is_in_heap_region(const void* p);

namespace {

struct alignas(256) Wide {
  char bytes[512];
};

int failures = 0;

void served(const void* p, const char* what) {
  if (p != nullptr && mi_is_in_heap_region(p)) return;
  std::printf("%s: not served by the library\n", what);
  failures++;
}

// Before main: the static constructors of C++ allocate, too.
const std::string at_start(1000, 'x');

}  // namespace

int main() {
  served(at_start.data(), "a static string");
  int* one = new int(1);
  served(one, "new");
  delete one;
  int* many = new int[1000];
  served(many, "new[]");
  delete[] many;
  int* quiet = new (std::nothrow) int(1);
  served(quiet, "new nothrow");
  operator delete(quiet, std::nothrow);
  Wide* wide = new Wide;
  served(wide, "aligned new");
  if (reinterpret_cast<std::size_t>(wide) % 256 != 0) failures++;
  delete wide;
  std::vector<std::string> texts(1000, std::string(100, 'y'));
  served(texts.data(), "a vector");
  served(texts[999].data(), "a string in it");
  try {
    volatile std::size_t too_much = static_cast<std::size_t>(-1) / 2 + 2;
    served(::operator new(too_much), "too much");
    failures++;
  } catch (const std::bad_alloc&) {
  }
  if (failures == 0) std::puts("served");
  return failures != 0;
}
